package main

func Example() {
	main()
	// Output:
	// 69 documents of three customers, and one worker who takes 1 s for each: archive
	// sends 60 in 12 s, bakery 3 from second 3 on, clinic 6 from second 5 on.
	//
	// mean wait   first come   by count (Next)   by load (Submit and Done)
	// archive         27.4 s            31.9 s                      31.8 s
	// bakery          22.7 s             0.3 s                       0.3 s
	// clinic          36.2 s             2.5 s                       4.3 s
	//
	// levels    by count                               by load
	// archive   1×3 2×2 3×2 4×2 5×2 6×2 7×2 8×6 9×39   1×2 2×6 3×16 4×36
	// bakery    1×3                                    1×3
	// clinic    1×3 2×2 3×1                            1×2 2×4
	//
	// 8×6: six documents at level 8. The worker takes level 1 first, 9 last.
}

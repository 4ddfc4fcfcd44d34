package simulation

// heap is a binary heap, the first in front. It is container/heap without an
// allocation for each push.
type heap[T interface{ Before(T) bool }] []T

func (h *heap[T]) push(item T) {
	*h = append(*h, item)
	items := *h
	for i := len(items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !items[i].Before(items[parent]) {
			break
		}
		items[i], items[parent] = items[parent], items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	items := *h
	first, last := items[0], len(items)-1
	items[0] = items[last]
	items = items[:last]
	*h = items
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(items); child++ {
			if items[child].Before(items[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		items[i], items[least] = items[least], items[i]
		i = least
	}
}

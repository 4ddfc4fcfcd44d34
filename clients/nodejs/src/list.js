// A list that anything is taken out of at once. (A Map is slow as a queue: it looks for its
// first entry among all that were deleted before.)

/** Of objects that have before and after for it. */
export class List {
  head;
  tail;

  add(one) {
    one.before = this.tail;
    one.after = undefined;
    if (this.tail) this.tail.after = one;
    else this.head = one;
    this.tail = one;
  }

  remove({ before, after }) {
    if (before) before.after = after;
    else this.head = after;
    if (after) after.before = before;
    else this.tail = before;
  }
}

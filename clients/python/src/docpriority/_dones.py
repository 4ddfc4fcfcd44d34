"""The calls of ``done`` that Redis has not answered. No input or output is done here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Optional

_MOST = 100_000
_MOST_PAID = 1000  # in one call
_DAY = 86_400.0  # seconds; by then Redis has forgotten the documents by itself


class Payment(NamedTuple):
    """Dones of one customer that are on their way to Redis."""

    customer: bytes
    documents: Sequence[bytes]
    seconds: float  # that all of them took; 0: that is not known


class UnderWay:
    """A caller's Done of which Redis is asked."""

    def __init__(self, customer: bytes, documents: Sequence[bytes]) -> None:
        self.customer = customer
        self.documents = documents
        self.submitted: set[bytes] = set()  # again, meanwhile


class Held(NamedTuple):
    """A Done that is owed."""

    document: bytes
    seconds: float
    at: float


class Dones:
    """Remembers Dones until Redis has taken them: at most 100,000. Beyond them, the oldest of the same customer
    leaves, or of one who owes much more.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._under_way: dict[bytes, set[UnderWay]] = {}
        self._owed: dict[bytes, OrderedDict[bytes, Held]] = {}
        self._many = 0
        self._most = 0  # that one customer owes, or more than that
        self._large: list[bytes] = []  # customers who owe much, when last looked for; the greatest is last
        self._paying: Optional[Payment] = None  # one at a time

    def __len__(self) -> int:
        """Returns how many are owed."""
        return self._many

    def begin(self, customer: bytes, documents: Sequence[bytes]) -> UnderWay:
        """Notes a Done of which Redis is asked: a submit of the document that comes meanwhile cancels it."""
        done = UnderWay(customer, documents)
        with self._lock:
            self._under_way.setdefault(customer, set()).add(done)
        return done

    def end(self, done: UnderWay) -> Sequence[bytes]:
        """Ends it. Returns the documents that were not submitted again."""
        with self._lock:
            under_way = self._under_way.get(done.customer, set())
            under_way.discard(done)
            if not under_way:
                self._under_way.pop(done.customer, None)
        return [document for document in done.documents if document not in done.submitted]

    def hold(self, customer: bytes, documents: Sequence[bytes], seconds: float, now: float) -> None:
        """Remembers Dones of documents that took some time each."""
        self.restore(customer, [Held(document, seconds, now) for document in documents])

    def restore(self, customer: bytes, dones: Iterable[Held]) -> None:
        """Remembers Dones that cancel took out."""
        with self._lock:
            for held in dones:
                owed = self._owed.get(customer)
                if owed is None:
                    owed = self._owed[customer] = OrderedDict()
                if owed.pop(held.document, None) is None:
                    self._many += 1
                owed[held.document] = held
                self._most = max(self._most, len(owed))
                if self._many > _MOST:
                    self._make_room(customer)

    def release(self, customer: bytes, documents: Sequence[bytes]) -> None:
        """Forgets Dones that Redis took, or never can."""
        with self._lock:
            for document in documents:
                self._take(customer, document)

    def forget(self, customer: bytes) -> None:
        with self._lock:
            self._many -= len(self._owed.pop(customer, ()))

    def cancel(self, customer: bytes, documents: Sequence[bytes]) -> tuple[Sequence[Held], bool]:
        """Takes out the Dones of documents that are submitted again. Reports whether one is on its way."""
        with self._lock:
            taken = [self._take(customer, document) for document in documents] if customer in self._owed else []
            for done in self._under_way.get(customer, ()):
                done.submitted.update(documents)
            paying = self._paying
            on_its_way = paying is not None and paying.customer == customer and not set(paying.documents).isdisjoint(documents)
        return [held for held in taken if held is not None], on_its_way

    def customers(self) -> Sequence[bytes]:
        """Returns those for whom Dones are owed."""
        with self._lock:
            return list(self._owed)

    def pay(self, customer: bytes, now: float) -> Optional[Payment]:
        """Begins to pay the oldest Dones of a customer: either those that say how long the document took, or the others."""
        with self._lock:
            oldest = list(islice(self._owed.get(customer, OrderedDict()).values(), _MOST_PAID))
            for held in oldest:
                if held.at < now - _DAY:
                    self._take(customer, held.document)
            left = [held for held in oldest if held.at >= now - _DAY]
            alike = [held for held in left if (held.seconds > 0) == (left[0].seconds > 0)]
            if alike:
                self._paying = Payment(customer, [held.document for held in alike], sum(held.seconds for held in alike))
            elif oldest:
                return self.pay(customer, now)
            return self._paying

    def paid(self, payment: Payment, taken: bool) -> None:
        """Ends a payment, which Redis has taken or not."""
        with self._lock:
            self._paying = None
            if taken:
                self.release(payment.customer, payment.documents)

    def _take(self, customer: bytes, document: bytes) -> Optional[Held]:
        owed = self._owed.get(customer)
        held = owed.pop(document, None) if owed is not None else None
        if held is not None:
            self._many -= 1
            if not owed:
                del self._owed[customer]
        return held

    def _make_room(self, customer: bytes) -> None:
        """Forgets one Done: of a customer who owes much more than this one, if there is any."""
        enough = 2 * len(self._owed[customer]) + 8
        while self._most > enough:
            if not self._large:
                self._large = sorted((other for other, owed in self._owed.items() if len(owed) > enough), key=lambda other: len(self._owed[other]))
                self._most = max(map(len, self._owed.values()))
            elif len(self._owed.get(self._large[-1], ())) > enough:
                customer = self._large[-1]
                break
            else:
                self._large.pop()
        self._take(customer, next(iter(self._owed[customer])))

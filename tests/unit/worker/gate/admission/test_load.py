"""What a gate knows of its engine's own numbers."""

from penstock.worker.gate.admission.load import LoadBook, Observed


def test_it_says_for_how_long_the_engine_has_done_nothing() -> None:
    """Gateways ask before they take a slow answer for a hung engine; unknown is not zero."""
    book = LoadBook(max_num_seqs=4)
    assert book.still_s(0.0) is None
    book.observe(Observed(waiting=1), 0.0)
    assert book.still_s(1.0) is None
    said = []
    for at, steps in ((2.0, 7.0), (4.0, 7.0), (6.0, 8.0)):
        book.observe(Observed(progress=(steps,)), at)
        said.append(book.still_s(at + 1.0))
    assert said == [1.0, 3.0, 1.0]

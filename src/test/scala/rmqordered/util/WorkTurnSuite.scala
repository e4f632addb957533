package rmqordered.util

class WorkTurnSuite extends munit.FunSuite {
  private val clock = new ManualClock()
  private val turns = new WorkTurns(clock, WorkBudget(millis = 5, records = 200, bytes = 1000))

  test("a turn is over when its time is, but not before something was looked at") {
    val turn = turns.begin()
    clock.advance(1000)
    assert(!turn.isOver)
    turn.lookedInto(1)
    assert(turn.isOver)
    assertEquals((turn.records, turn.bytes), (1, 1L))
  }

  test("a turn is over after so many bytes or records, whatever the clock says") {
    val wide = turns.begin()
    wide.lookedInto(999)
    assert(!wide.isOver)
    wide.lookedInto(1)
    assert(wide.isOver)
    val long = turns.begin()
    (1 to 199).foreach(_ => long.lookedAt())
    assert(!long.isOver)
    long.lookedAt()
    assert(long.isOver)
  }

  test("the clock is looked at for every record that is opened, and now and then for the others") {
    val turn = turns.begin()
    clock.advance(5)
    (1 to 63).foreach(_ => turn.lookedAt())
    assert(!turn.isOver)
    turn.lookedAt()
    assert(turn.isOver)
  }

  test("a walk that ends by itself has no turn") {
    val turn = WorkTurn.endless()
    (1 to 100000).foreach(_ => turn.lookedInto(1 << 20))
    assert(!turn.isOver)
  }
}

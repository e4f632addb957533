package rmqordered.util

class RememberedTableSuite extends munit.FunSuite {
  private val (alice, bob) = (Owner.user("alice"), Owner.user("bob"))

  test("above the bound nothing is taken, and what is given back can be taken again") {
    val table = new RememberedTable("things", 100)
    table.take(Cost(60, Nil))
    table.take(Cost(40, Nil))
    val full = intercept[TableFull](table.take(Cost(1, Nil)))
    assertEquals(
      full.getMessage,
      "The broker remembers no more things: all clients together have at most 100 bytes of them, " +
        "and this needs 1 more. Remove what is not needed."
    )
    assertEquals(table.bytes, 100L)
    table.give(Cost(60, Nil))
    table.take(Cost(60, Nil))
  }

  test("one user has half, one connection an eighth, and the others find room") {
    val table = new RememberedTable("things", 800)
    val connection = Owner.connection(new Object)
    table.take(Cost(100, Seq(connection, alice)))
    val full = intercept[TableFull](table.take(Cost(1, Seq(connection, alice))))
    assert(full.getMessage.contains("one connection has at most 100 bytes"), full.getMessage)
    table.take(Cost(300, Seq(alice)))
    assert(intercept[TableFull](table.take(Cost(1, Seq(alice)))).getMessage.contains("one user"))
    table.take(Cost(400, Seq(bob)))
    assertEquals(table.bytes, 800L)
    table.give(Cost(300, Seq(alice)))
    table.give(Cost(100, Seq(connection, alice)))
    table.take(Cost(400, Seq(alice)))
  }

  test("what is replaced counts no more, and stays when there is no room for the other") {
    val table = new RememberedTable("things", 100)
    table.take(Cost(50, Seq(alice)))
    table.replace(Cost(50, Seq(alice)), Cost(40, Seq(alice)))
    assertEquals(table.bytes, 40L)
    intercept[TableFull](table.replace(Cost(40, Seq(alice)), Cost(51, Seq(alice))))
    assertEquals(table.bytes, 40L)
    table.replace(Cost(40, Seq(alice)), Cost(50, Seq(bob)))
    table.take(Cost(50, Seq(alice)))
  }

  test("what was there before a start is kept, whatever the bound says") {
    val table = new RememberedTable("things", 100)
    table.keep(150)
    intercept[TableFull](table.take(Cost(1, Nil)))
    table.replace(Cost(50, Nil), Cost(20, Nil))
    assertEquals(table.bytes, 120L)
  }
}

package rmqordered

import munit.{Location, Tag, TestOptions}

/**
 * What ties a test to the promises of `docs/guarantees.md`: `test("sentence".proves("id")) {..}`.
 *
 * The marks are read from the sources; a run needs only the tier: `make test` leaves out what is
 * marked `proof`, `make proof` runs nothing else.
 */
object Proves {
  val Proof = new Tag("Proof")

  implicit final class Sentence(private val name: String) extends AnyVal {
    def proves(promises: String*)(implicit location: Location): TestOptions =
      marked(new TestOptions(name, Set.empty, location), promises)

    def proof(implicit location: Location): TestOptions =
      new TestOptions(name, Set(Proof), location)
  }

  implicit final class Marked(private val options: TestOptions) extends AnyVal {
    def proof: TestOptions = options.tag(Proof)
  }

  private def marked(options: TestOptions, promises: Seq[String]): TestOptions =
    promises.foldLeft(options)((tagged, promise) => tagged.tag(new Tag(promise)))
}

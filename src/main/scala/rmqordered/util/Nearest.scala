package rmqordered.util

/** Finds the name a person probably meant. Pure. */
object Nearest {

  // A suggestion further away than this would be a guess, not a correction.
  private val MaxEdits = 3

  def to(name: String, candidates: Iterable[String]): Option[String] =
    candidates
      .map(candidate => (edits(name.toLowerCase, candidate.toLowerCase), candidate))
      .filter { case (distance, _) => distance <= MaxEdits }
      .minOption
      .map { case (_, candidate) => candidate }

  private def edits(a: String, b: String): Int = {
    val firstRow = (0 to b.length).toVector
    a.indices
      .foldLeft(firstRow) { (above, i) =>
        b.indices.scanLeft(i + 1) { (left, j) =>
          val substitution = above(j) + (if (a(i) == b(j)) 0 else 1)
          Seq(left + 1, above(j + 1) + 1, substitution).min
        }.toVector
      }
      .last
  }
}

package rmqordered.group

/** RocketMQ's ways to share queues among the members of a group; both in sorted order. */
object Allocation {
  type Strategy = (String, Vector[String], Vector[Int]) => Vector[Int]

  val strategies: Map[String, Strategy] = Map("AVG" -> average, "AVG_BY_CIRCLE" -> circle)

  /** Neighbouring queues; the first members get one more if they do not divide evenly. */
  def average(member: String, members: Vector[String], queues: Vector[Int]): Vector[Int] = {
    val index = members.indexOf(member)
    if (index < 0) Vector.empty
    else {
      val (each, rest) = (queues.length / members.length, queues.length % members.length)
      val start = index * each + Math.min(index, rest)
      queues.slice(start, start + each + (if (index < rest) 1 else 0))
    }
  }

  /** One queue after another, round and round. */
  def circle(member: String, members: Vector[String], queues: Vector[Int]): Vector[Int] = {
    val index = members.indexOf(member)
    if (index < 0) Vector.empty
    else queues.indices.filter(_ % members.length == index).map(queues).toVector
  }

  /** For pops: the queue id -1 stands for all queues. */
  def popped(
      strategy: Strategy,
      member: String,
      members: Vector[String],
      queues: Vector[Int],
      sharedQueues: Int
  ): Vector[Int] = {
    val index = members.indexOf(member)
    if (sharedQueues <= 0 || sharedQueues >= members.length - 1) Vector(AllQueues)
    else if (index < 0) Vector.empty
    else if (members.length <= queues.length)
      (0 to sharedQueues).toVector
        .flatMap(i => strategy(members((index + i) % members.length), members, queues))
        .distinct
    else Vector(queues(index % queues.length))
  }

  val AllQueues: Int = -1
}

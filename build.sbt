import java.nio.charset.StandardCharsets.UTF_8

// Every version is named here and nowhere else. The libraries are the ones in PySpark's jars/
// folder
// (4.2 and 4.3 ship the same), hence Provided: the jar holds this project's classes only.
val scalaLibraryVersion = "2.13.18"
val nettyVersion = "4.2.13.Final"
val jacksonVersion = "2.21.2"
val log4jVersion = "2.25.4"
val slf4jVersion = "2.0.17"
val munitVersion = "1.2.1"

lazy val broker = (project in file("."))
  .settings(
    name := "rmq-ordered-broker",
    organization := "rmqordered",
    version := "0.1.0",
    scalaVersion := scalaLibraryVersion,
    crossPaths := false,
    // Java 17 is the oldest Java that Spark 4 runs on.
    javacOptions ++= Seq("--release", "17"),
    scalacOptions ++= Seq(
      "-release",
      "17",
      "-encoding",
      "UTF-8",
      "-deprecation",
      "-feature",
      "-unchecked",
      "-Xlint",
      "-Werror"
    ),
    libraryDependencies ++= Seq(
      // netty-handler, not netty-all: the latter would put jars on the compile class path that
      // PySpark lacks.
      "io.netty" % "netty-handler" % nettyVersion % Provided,
      "com.fasterxml.jackson.core" % "jackson-databind" % jacksonVersion % Provided,
      "org.slf4j" % "slf4j-api" % slf4jVersion % Provided,
      "org.apache.logging.log4j" % "log4j-api" % log4jVersion % Provided,
      "org.apache.logging.log4j" % "log4j-core" % log4jVersion % Provided,
      "org.apache.logging.log4j" % "log4j-slf4j2-impl" % log4jVersion % Provided,
      "org.scalameta" %% "munit" % munitVersion % Test
    ),
    // The shipped defaults travel in the jar under rmqordered/, never at its root: a
    // log4j2.properties at the
    // root of a jar on Spark's class path would take over Spark's own logging.
    Compile / resourceGenerators += Def.task {
      val target = (Compile / resourceManaged).value / "rmqordered"
      val conf = baseDirectory.value / "conf"
      Seq("log4j2.properties", "broker.conf").map { file =>
        IO.write(target / file, IO.read(conf / file, UTF_8), UTF_8)
        target / file
      }
    }.taskValue,
    // One fixed file name: launchers and the wheel look for exactly this jar.
    Compile / packageBin / artifactPath := target.value / "rmq-ordered-broker.jar",
    Compile / packageDoc / publishArtifact := false,
    Test / fork := true,
    // As the launcher opens it to the broker.
    Test / javaOptions += "--add-opens=java.base/java.nio=ALL-UNNAMED",
    // Whoever runs the tests removes what they leave in its folder.
    Test / javaOptions ++= sys.env.get("TMPDIR").map("-Djava.io.tmpdir=" + _).toSeq,
    // Tests are reported as they end, not when their suite does.
    Test / logBuffered := false,
    // Tests read conf/ and tests/golden/ relative to the project's folder.
    Test / baseDirectory := baseDirectory.value,
    Test / parallelExecution := false
  )

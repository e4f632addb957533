// Added to the build only where coverage is measured.
addSbtPlugin("org.scoverage" % "sbt-scoverage" % "2.1.0")

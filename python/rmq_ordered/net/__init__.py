"""The I/O shell: sockets, threads and the machine's clock, thin around ``protocol``."""

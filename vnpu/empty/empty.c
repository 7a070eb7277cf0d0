/*
 * empty.c - libge_runner.so, libgraph.so and libacl_tdt_channel.so, which programs are linked with: no function of theirs is
 * served.
 */

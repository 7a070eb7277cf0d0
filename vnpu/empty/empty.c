/*
 * empty.c - libge_runner.so, libgraph.so, libacl_tdt_channel.so and libhccl.so, which programs are linked with: no function of
 * theirs is served.
 */

/*
 * plugin.c - libraries for test_unwind.c that calls go through; -DPAD moves the code. Built with -fexceptions, so that the
 * function has data for an exception to find: it stands before the instructions of its FDE.
 */
#ifdef PAD
__attribute__((used, noinline)) static int pad(int x)
{
    __asm__ volatile(".skip 256, 0x90");
    return x;
}
#endif

int passed;

static void pass(const int *which)
{
    passed = *which;
}

__attribute__((visibility("default"))) int through(void (*function)(void))
{
    __attribute__((cleanup(pass))) int which = 1;
    function();
    return which;
}

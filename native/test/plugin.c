/* plugin.c - libraries for test_unwind.c that calls go through; -DPAD=n moves the code. */
#ifdef PAD
__attribute__((used, noinline)) static int pad(int x)
{
    __asm__ volatile(".skip 256, 0x90");
    return x;
}
#endif

__attribute__((visibility("default"))) int through(void (*function)(void))
{
    function();
    return 1;
}

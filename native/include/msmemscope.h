/*
 * msmemscope.h - the public C API of libascend_leaks.so: what a program may call to steer its own recording.
 *
 * The library is in the process when the program was started under msmemscope or after
 * `source msmemscope --load-api-env`; look the functions up with dlsym(RTLD_DEFAULT, ...) to run without it too.
 * All functions may be called from any thread and keep errno.
 */
#ifndef MSMEMSCOPE_H
#define MSMEMSCOPE_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins recording, or goes on after ms_stop. Does nothing when already recording.
 * Returns 0, or -1 when nobody collects for this process (then nothing is recorded and nothing is lost to the program).
 */
int ms_start(void);

/*
 * Pauses recording. Blocks that come and go meanwhile are followed but not shown, so that the books are right at the
 * next ms_start. Does nothing when already paused. Returns 0, or -1 as ms_start.
 */
int ms_stop(void);

/*
 * Marks the end of a training step; steps count from 1 in each process. Does nothing while paused.
 * Returns 0, or -1 as ms_start. Use either this or mstx ranges named "step start", not both.
 */
int ms_step(void);

#ifdef __cplusplus
}
#endif

#endif

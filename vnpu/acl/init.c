/* init.c - life of AscendCL in a process. As in the real one, most functions work without it. */
#include <pthread.h>
#include <unistd.h>

#include "impl.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { NEVER, ALIVE, OVER } state;

/* The configuration file, where one is named, must be readable; nothing in it changes the virtual NPU. */
aclError aclInitImpl(const char *configPath)
{
    if (configPath && *configPath && access(configPath, R_OK))
        return ACL_ERROR_INVALID_FILE;
    int32_t count;
    rtError_t error = rtGetDeviceCount(&count);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    error = state == NEVER ? ACL_SUCCESS : ACL_ERROR_REPEAT_INITIALIZE;
    if (!error)
        state = ALIVE;
    pthread_mutex_unlock(&lock);
    return error;
}

aclError aclFinalizeImpl(void)
{
    static const aclError answers[] = {
        [NEVER] = ACL_ERROR_UNINITIALIZE, [ALIVE] = ACL_SUCCESS, [OVER] = ACL_ERROR_REPEAT_FINALIZE};
    pthread_mutex_lock(&lock);
    aclError error = answers[state];
    if (state == ALIVE)
        state = OVER;
    pthread_mutex_unlock(&lock);
    return error;
}

/* The error of a call says all that we know about it. */
const char *aclGetRecentErrMsgImpl(void)
{
    return "";
}

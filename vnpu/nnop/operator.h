/* operator.h - how operators come to the card: a kernel with the operator's name. Said by VNPU_… variables: see README. */
#ifndef VNPU_NNOP_OPERATOR_H
#define VNPU_NNOP_OPERATOR_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that the operator is to ask for (VNPU_WORKSPACE); an error when the environment is bad. */
aclnnStatus vnpu_operator_workspace(const char *name, uint64_t *bytes);
/* Launches a kernel of this name. `name` need not live on. */
aclnnStatus vnpu_operator_launch(const char *name, aclrtStream stream);
/* The same for an operator that computes nothing: says its name once, or with VNPU_STRICT=1 fails. */
aclnnStatus vnpu_missing_operator(const char *name, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif

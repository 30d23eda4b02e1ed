/* Debian has no archive of a GSSAPI library. libssh.a refers to one, but uses it only in a login with Kerberos, which
 * Muster leaves to the `ssh` program. So in programs that are linked with libssh.a these functions fail. */
#include <stddef.h>

/* Values of gssapi.h: an error of the caller's, GSS_S_CALL_BAD_STRUCTURE. */
enum { kUnsupported = 3 << 24 };

const void* const GSS_C_NT_HOSTBASED_SERVICE = NULL;
const void* const GSS_C_NT_USER_NAME = NULL;

#define UNSUPPORTED(name) \
  unsigned name(void);    \
  unsigned name(void) {   \
    return kUnsupported;  \
  }
UNSUPPORTED(gss_accept_sec_context)
UNSUPPORTED(gss_acquire_cred)
UNSUPPORTED(gss_add_oid_set_member)
UNSUPPORTED(gss_create_empty_oid_set)
UNSUPPORTED(gss_display_name)
UNSUPPORTED(gss_display_status)
UNSUPPORTED(gss_get_mic)
UNSUPPORTED(gss_import_name)
UNSUPPORTED(gss_indicate_mechs)
UNSUPPORTED(gss_init_sec_context)
UNSUPPORTED(gss_inquire_cred)
UNSUPPORTED(gss_inquire_cred_by_mech)
UNSUPPORTED(gss_release_buffer)
UNSUPPORTED(gss_release_cred)
UNSUPPORTED(gss_release_name)
UNSUPPORTED(gss_release_oid_set)
UNSUPPORTED(gss_test_oid_set_member)
UNSUPPORTED(gss_verify_mic)

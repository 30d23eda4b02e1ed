// Checks what a caller may do. A caller on a Unix socket is the launcher's own user and may do everything. A caller by
// TCP has shown a certificate of the launcher's client CA. That certificate names the caller's roles by URIs
// muster://role/<role>. Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "base/status.h"
#include "launcherd/service/revoked_certificates.h"

namespace muster::launcherd::inline service {

// Each role includes the roles before it.
enum class Role { kWatch, kSubmit, kAdmin };

// Any thread. PERMISSION_DENIED: the certificate is revoked, or its role is not sufficient.
base::Status check_role(const grpc::ServerContextBase& context, Role needed, const RevokedCertificates& revoked);

// Returns the common name of the caller's certificate, as printable text of at most 128 bytes. On a Unix socket it
// returns own_user(). Any thread.
std::string user_of(const grpc::ServerContextBase& context);

}  // namespace muster::launcherd::service

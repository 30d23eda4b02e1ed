// Checks what a caller may do. A caller on a Unix socket is the launcher's own user and may do everything. A caller by
// TCP has shown a certificate of the launcher's client CA. That certificate names the caller's roles by URIs
// muster://role/<role>. Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/status.h"
#include "launcherd/service/revoked_certificates.h"

namespace muster::launcherd::inline service {

// Each role includes the roles before it.
enum class Role { kWatch, kSubmit, kAdmin };

// Any thread. PERMISSION_DENIED: the certificate is revoked, or its role is not sufficient.
base::Status check_role(const grpc::ServerContextBase& context, Role needed, const RevokedCertificates& revoked);

}  // namespace muster::launcherd::service

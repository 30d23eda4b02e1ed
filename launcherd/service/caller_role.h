// What a caller may do. Who comes over a Unix socket is the launcher's own user and may do everything; who comes by TCP
// has shown a certificate of the launcher's client CA, whose URIs muster://role/<role> say it. Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/status.h"
#include "launcherd/service/revoked_certificates.h"

namespace muster::launcherd::inline service {

// Each may do what those before it may.
enum class Role { kWatch, kSubmit, kAdmin };

// PERMISSION_DENIED: the certificate is revoked, or gives no role that is enough. Any thread.
base::Status check_role(const grpc::ServerContextBase& context, Role needed, const RevokedCertificates& revoked);

}  // namespace muster::launcherd::service

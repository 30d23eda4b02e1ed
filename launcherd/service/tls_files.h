// Reads certificates and private keys from the files of --tls-cert, --tls-key, --client-ca and --tls-ca.
// Thread: any. The calls block as long as the file system does.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace muster::launcherd::inline service {

// Returns a private key in PEM. PERMISSION_DENIED if the file belongs to another user who is not root, if users outside
// its group may read or write it, or if its group may write it. The group may read it only if root owns the file.
base::Result<std::string> read_private_key(const std::string& path);

// INVALID_ARGUMENT: `certificate` and `key` are not the PEM of a certificate and its key, or `authority` holds no
// certificate.
base::Status check_tls_texts(const std::string& certificate, const std::string& key, const std::string& authority);

// Returns the time until which the first certificate of a PEM text is valid. INVALID_ARGUMENT: it holds none.
base::Result<base::WallTime> certificate_end(const std::string& certificate);

}  // namespace muster::launcherd::service

// Certificates and private keys in files, as --tls-cert, --tls-key, --client-ca and --tls-ca name them. Blocks as long
// as the file system does; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::launcherd::inline service {

// PEM of a private key. PERMISSION_DENIED: the file belongs to another user (root is fine), others may read or write
// it, or its group may write it. The group of a file of root's may read it.
base::Result<std::string> read_private_key(const std::string& path);

// INVALID_ARGUMENT: `certificate` and `key` are not PEM of a certificate and its key, or `authority` holds no
// certificate.
base::Status check_tls_texts(const std::string& certificate, const std::string& key, const std::string& authority);

}  // namespace muster::launcherd::service

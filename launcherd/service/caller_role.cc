#include "launcherd/service/caller_role.h"

#include <array>
#include <optional>
#include <string_view>

#include <grpc/grpc_security_constants.h>

#include "base/shortened.h"
#include "base/strings.h"
#include "launcherd/service/own_user.h"

namespace muster::launcherd::inline service {
namespace {

struct RoleName {
  std::string_view uri;
  std::string_view word;
  Role role;
};

constexpr std::array kRoles = {RoleName{"muster://role/watch", "watch", Role::kWatch},
                               RoleName{"muster://role/submit", "submit", Role::kSubmit},
                               RoleName{"muster://role/admin", "admin", Role::kAdmin}};

std::string_view word_of(Role role) {
  return kRoles[static_cast<std::size_t>(role)].word;
}

bool is_by_tls(const grpc::AuthContext& auth) {
  for (const grpc::string_ref& type : auth.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME)) {
    if (std::string_view(type.data(), type.size()) == GRPC_SSL_TRANSPORT_SECURITY_TYPE) return true;
  }
  return false;
}

std::optional<Role> highest_role(const grpc::AuthContext& auth) {
  std::optional<Role> highest;
  for (const grpc::string_ref& uri : auth.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    for (const RoleName& known : kRoles) {
      if (std::string_view(uri.data(), uri.size()) != known.uri) continue;
      if (!highest || known.role > *highest) highest = known.role;
    }
  }
  return highest;
}

bool is_revoked(const grpc::AuthContext& auth, const RevokedCertificates& revoked) {
  // Use the chain that the caller sent. It includes the caller's own certificate.
  for (const char* const property : {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& pem : auth.FindPropertyValues(property)) {
      if (revoked.has_one_of(std::string(pem.data(), pem.size()))) return true;
    }
  }
  return false;
}

}  // namespace

base::Status check_role(const grpc::ServerContextBase& context, Role needed, const RevokedCertificates& revoked) {
  const auto auth = context.auth_context();
  // Allow the call, because Unix sockets accept only our own user (api_server.cc).
  if (auth == nullptr || !is_by_tls(*auth)) return base::ok_status();
  if (is_revoked(*auth, revoked)) {
    return base::permission_denied(
        "this certificate is revoked (launcherd's --client-crl): ask its certificate authority for a new one");
  }
  const auto role = highest_role(*auth);
  if (role && *role >= needed) return base::ok_status();
  return base::permission_denied(
      "this call needs the role {}, but the certificate gives {}: use one with the URI muster://role/{} "
      "among its subject alternative names",
      word_of(needed), role ? word_of(*role) : "none", word_of(needed));
}

std::string user_of(const grpc::ServerContextBase& context) {
  constexpr std::size_t kLongestUser = 128;
  const auto auth = context.auth_context();
  if (auth == nullptr || !is_by_tls(*auth)) return own_user();
  const auto names = auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  if (names.empty()) return "";
  return base::shortened(base::printable({names.front().data(), names.front().size()}), kLongestUser);
}

}  // namespace muster::launcherd::service

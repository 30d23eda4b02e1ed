#include "launcherd/service/api_connection.h"

#include <grpcpp/create_channel_posix.h>

#include <string>
#include <utility>

#include "base/file.h"
#include "base/unique_fd.h"
#include "launcherd/service/api_socket.h"
#include "launcherd/service/tls_files.h"

namespace muster::launcherd::inline service {
namespace {

// Limit on one message. Launchers cut pages of jobs and ranks to less, so only lists of hosts come near it.
constexpr int kMaxMessage = 16 << 20;

const std::string kKeyOption = "--tls-key";

base::Result<std::string> read_pem(const std::string& what, const std::string& path) {
  if (path.empty()) {
    return base::invalid_argument(
        "a launcher by TCP needs certificates, but {} is not set: give --tls-cert, --tls-key and "
        "--tls-ca, or MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA",
        what);
  }
  auto pem = what == kKeyOption ? read_private_key(path) : base::read_file(path);
  return pem.ok() ? pem : pem.status().with_context(what);
}

base::Result<std::shared_ptr<grpc::Channel>> tcp_channel(const LauncherAddress& address) {
  grpc::SslCredentialsOptions tls;
  MUSTER_ASSIGN_OR_RETURN(tls.pem_cert_chain, read_pem("--tls-cert", address.tls.certificate));
  MUSTER_ASSIGN_OR_RETURN(tls.pem_private_key, read_pem(kKeyOption, address.tls.key));
  MUSTER_ASSIGN_OR_RETURN(tls.pem_root_certs, read_pem("--tls-ca", address.tls.authority));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  return grpc::CreateCustomChannel("dns:///" + address.endpoint, grpc::SslCredentials(tls), arguments);
}

base::Result<std::shared_ptr<grpc::Channel>> unix_channel(const LauncherAddress& address,
                                                          std::chrono::milliseconds patience) {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, connect_launcher(address.path, patience));
  if (!is_own_peer(fd.get())) {
    return base::permission_denied("the launcher at {} belongs to another user", format_launcher_address(address));
  }
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(fd.get(), true));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  return grpc::CreateCustomInsecureChannelFromFd("launcher", fd.release(), arguments);
}

}  // namespace

base::Result<std::shared_ptr<grpc::Channel>> ApiConnection::channel(const LauncherAddress& address,
                                                                    std::chrono::milliseconds patience) {
  const std::lock_guard lock(mutex_);
  if (channel_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(channel_, address.path.empty() ? tcp_channel(address) : unix_channel(address, patience));
  }
  return channel_;
}

void ApiConnection::lost(const std::shared_ptr<grpc::Channel>& channel) {
  const std::lock_guard lock(mutex_);
  if (channel_ == channel) channel_ = nullptr;
}

LauncherAddress share_connection(LauncherAddress address) {
  address.connection = std::make_shared<ApiConnection>();
  return address;
}

}  // namespace muster::launcherd::service

#include "launcherd/service/api_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "launcherd/service/api_calls.h"
#include "launcherd/service/api_service.h"
#include "launcherd/service/health_service.h"

namespace muster::launcherd {
namespace {

constexpr int kMaxRequestBytes = 4 << 20;
// For answers that are on their way when the launcher leaves.
constexpr std::chrono::milliseconds kLastAnswers{200};
// Without a free descriptor a waiting connection stays readable: looked at again after this.
constexpr std::chrono::milliseconds kAcceptPause{100};

bool is_out_of_descriptors(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS || errno_value == ENOMEM;
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsListener& listener) {
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = listener.client_ca;
  options.pem_key_cert_pairs.push_back({listener.key, listener.certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

struct ApiServer::State {
  State(base::Loop& loop_in, ApiListeners listeners_in, ApiHandler* handler)
      : loop(loop_in), listeners(std::move(listeners_in)), calls(std::make_shared<ApiCalls>(loop_in, handler)) {}

  void watch(std::size_t index) {
    watches[index] = loop.on_readable(listeners.sockets[index].fd(), [this, index] { accept_one(index); });
  }
  void accept_one(std::size_t index);
  bool make_server();
  void close();

  base::Loop& loop;
  ApiListeners listeners;
  std::shared_ptr<ApiCalls> calls;
  std::vector<base::Timer> watches;  // of the Unix sockets
  std::vector<int> ports;
  std::unique_ptr<ApiService> service;
  HealthService health;
  std::unique_ptr<grpc::Server> server;
};

void ApiServer::State::accept_one(std::size_t index) {
  base::UniqueFd fd(::accept4(listeners.sockets[index].fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid() && is_out_of_descriptors(errno)) {
    watches[index] = loop.after(kAcceptPause, [this, index] { watch(index); });
    return;
  }
  // Others are closed without a word; who only looked whether we live has gone again.
  if (!fd.valid() || !is_own_peer(fd.get()) || !make_server()) return;
  grpc::AddInsecureChannelFromFd(server.get(), fd.release());
}

bool ApiServer::State::make_server() {
  if (server != nullptr) return true;
  // The library does this by itself when it is loaded, for all servers of the process; the call makes it be loaded.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  service = std::make_unique<ApiService>(*calls);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port that another process has is an error
  builder.RegisterService(service.get());
  builder.RegisterService(&health);
  ports.assign(listeners.tls.size(), 0);
  for (std::size_t i = 0; i < listeners.tls.size(); ++i) {
    builder.AddListeningPort(listeners.tls[i].address, credentials_of(listeners.tls[i]), &ports[i]);
  }
  server = builder.BuildAndStart();
  return server != nullptr;
}

void ApiServer::State::close() {
  watches.clear();
  calls->close();
  health.close();
  if (server == nullptr) return;
  server->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server->Wait();
}

base::Result<std::unique_ptr<ApiServer>> ApiServer::start(base::Loop& loop, ApiListeners listeners,
                                                          ApiHandler* handler) {
  auto state = std::make_unique<State>(loop, std::move(listeners), handler);
  if (!state->listeners.tls.empty() && !state->make_server()) {
    return base::error(base::Code::kUnavailable,
                       "cannot listen at {}: is the address this host's and free, and do certificate and key belong "
                       "together?",
                       state->listeners.tls.front().address);
  }
  state->watches.resize(state->listeners.sockets.size());
  for (std::size_t i = 0; i < state->watches.size(); ++i) state->watch(i);
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiServer::ApiServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

ApiServer::~ApiServer() {
  state_->close();
}

const std::vector<int>& ApiServer::tls_ports() const {
  return state_->ports;
}

}  // namespace muster::launcherd

// ApiServer: State opens the listeners, accepts Unix connections, and creates the gRPC server when needed.
// Read ApiServer::start at the end first, then State::listen and make_server.
#include "launcherd/service/api_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "launcherd/service/api_calls.h"
#include "launcherd/service/api_service.h"
#include "launcherd/service/changing_credentials.h"
#include "launcherd/service/front_door.h"
#include "launcherd/service/health_service.h"
#include "launcherd/service/tcp_listener.h"
#include "launcherd/service/tls_files.h"
#include "proto/register_descriptors.h"

namespace muster::launcherd::inline service {
namespace {

constexpr int kMaxRequestBytes = 4 << 20;
// Replies that are on their way at shutdown get this time.
constexpr std::chrono::milliseconds kLastAnswers{200};
// Without a free descriptor a waiting connection stays readable, so the server tries again only after this pause.
constexpr std::chrono::milliseconds kAcceptPause{100};

// All ports share one list, because a revoked certificate is revoked at every port.
base::Result<RevokedCertificates> revoked_of(const std::vector<TlsListener>& tls) {
  std::string lists;
  std::string authorities;
  for (const TlsListener& each : tls) {
    lists += each.client_crl;
    authorities += each.client_ca;
  }
  return RevokedCertificates::read(lists, authorities);
}

}  // namespace

// One TCP address: its certificates, and the front doors through which connections reach gRPC.
struct TlsPort {
  std::shared_ptr<ChangingCredentials> credentials;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::vector<std::unique_ptr<FrontDoor>> doors;
};

struct ApiServer::State {
  State(base::Loop& loop_in, ApiListeners listeners_in, ApiHandler* handler)
      : loop(loop_in),
        listeners(std::move(listeners_in)),
        calls(std::make_shared<ApiCalls>(loop_in, handler, [this](const std::string& peer) { authenticated(peer); })) {}

  void watch(std::size_t index) {
    watches[index] = loop.on_readable(listeners.sockets[index].fd(), [this, index] { accept_one(index); });
  }
  void accept_one(std::size_t index);
  bool make_server();
  base::Status listen();
  base::Status open_port(const TlsListener& wanted, TlsPort& port);
  void authenticated(const std::string& peer);
  void close();

  base::Loop& loop;
  ApiListeners listeners;
  std::shared_ptr<ApiCalls> calls;
  std::vector<base::Timer> watches;  // watch the Unix sockets
  std::vector<int> ports;
  std::vector<TlsPort> tls;  // in the order of listeners.tls; outlives the server
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
  // Close other peers without a reply. Also handles a peer that only probed whether we live, and has left.
  if (!fd.valid() || !is_own_peer(fd.get()) || !make_server()) return;
  grpc::AddInsecureChannelFromFd(server.get(), fd.release());
}

bool ApiServer::State::make_server() {
  if (server != nullptr) return true;
  // The reflection library registers itself for all servers of the process when it is loaded. This call makes the
  // linker include it.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  proto::register_descriptors();  // it looks them up by name
  service = std::make_unique<ApiService>(*calls);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, handshake_milliseconds());
  builder.RegisterService(service.get());
  builder.RegisterService(&health);
  for (TlsPort& port : tls) {
    port.acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, port.credentials);
  }
  server = builder.BuildAndStart();
  return server != nullptr;
}

base::Status ApiServer::State::open_port(const TlsListener& wanted, TlsPort& port) {
  auto listening = listen_tcp(wanted.address);
  if (!listening.ok()) {
    return base::unavailable("cannot listen at {}: {}: does this host have the address, and is the port free?",
                             wanted.address, listening.status().message());
  }
  ports.push_back(listening->port);
  port.credentials =
      std::make_shared<ChangingCredentials>(wanted.client_ca, base::TlsIdentity{wanted.certificate, wanted.key});
  for (base::UniqueFd& socket : listening->sockets) {
    const std::size_t index = static_cast<std::size_t>(&port - tls.data());
    const auto hand_on = [this, index](base::UniqueFd fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = -1;
      connection.fd = fd.release();
      tls[index].acceptor->HandleNewConnection(&connection);
    };
    FrontDoorOptions about{.most_unproven = [] { return unproven_limit(); },
                           .name = "--listen " + wanted.address,
                           .on_line = listeners.on_line};
    MUSTER_ASSIGN_OR_RETURN(port.doors.emplace_back(),
                            FrontDoor::open(loop, std::move(socket), hand_on, std::move(about)));
  }
  return base::ok_status();
}

// Opens the TCP addresses, and creates the server at once.
base::Status ApiServer::State::listen() {
  if (listeners.tls.empty()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(RevokedCertificates revoked, revoked_of(listeners.tls));
  calls->set_revoked(std::move(revoked));
  tls.resize(listeners.tls.size());
  for (std::size_t i = 0; i < tls.size(); ++i) {
    const TlsListener& wanted = listeners.tls[i];
    MUSTER_RETURN_IF_ERROR(check_tls_texts(wanted.certificate, wanted.key, wanted.client_ca)
                               .with_context("--tls-cert, --tls-key and --client-ca"));
    MUSTER_RETURN_IF_ERROR(open_port(wanted, tls[i]));
  }
  if (make_server()) return base::ok_status();
  return base::internal_error("cannot serve at {}: gRPC rejects its certificates", listeners.tls.front().address);
}

// May be called from any thread.
void ApiServer::State::authenticated(const std::string& peer) {
  for (const TlsPort& port : tls) {
    for (const auto& door : port.doors) door->authenticated(peer);
  }
}

void ApiServer::State::close() {
  watches.clear();
  for (const TlsPort& port : tls) {
    for (const auto& door : port.doors) door->close();
  }
  calls->close();
  health.close();
  if (server == nullptr) return;
  server->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server->Wait();
}

base::Result<std::unique_ptr<ApiServer>> ApiServer::start(base::Loop& loop, ApiListeners listeners,
                                                          ApiHandler* handler) {
  auto state = std::make_unique<State>(loop, std::move(listeners), handler);
  MUSTER_RETURN_IF_ERROR(state->listen());
  state->watches.resize(state->listeners.sockets.size());
  for (std::size_t i = 0; i < state->watches.size(); ++i) state->watch(i);
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiServer::ApiServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

ApiServer::~ApiServer() {
  state_->close();
}

base::Status ApiServer::replace_certificates(const std::vector<TlsListener>& tls) {
  if (tls.size() != state_->tls.size()) {
    return base::invalid_argument("launcherd has {} TCP listeners, not {}", state_->tls.size(), tls.size());
  }
  for (const TlsListener& each : tls) {
    MUSTER_RETURN_IF_ERROR(check_tls_texts(each.certificate, each.key, each.client_ca));
  }
  MUSTER_ASSIGN_OR_RETURN(RevokedCertificates revoked, revoked_of(tls));
  state_->calls->set_revoked(std::move(revoked));
  for (std::size_t i = 0; i < tls.size(); ++i) {
    state_->tls[i].credentials->change(tls[i].client_ca, {tls[i].certificate, tls[i].key});
  }
  return base::ok_status();
}

const std::vector<int>& ApiServer::tls_ports() const {
  return state_->ports;
}

}  // namespace muster::launcherd::service

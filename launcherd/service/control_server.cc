// ControlServer: AgentStream is one gRPC stream. State holds the agents and their numbers. A stream calls State on the
// loop.
// Read State::accept first, then on_message and handle, then AgentStream.
#include "launcherd/service/control_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/net.h"
#include "launcherd/service/changing_credentials.h"
#include "launcherd/service/front_door.h"
#include "launcherd/service/grpc_log.h"
#include "proto/muster/v1/agent.grpc.pb.h"
#include "proto/peer_names.h"
#include "proto/replay_queue.h"
#include "proto/text_fields.h"

namespace muster::launcherd::inline service {
namespace {

constexpr int kMaxControlBytes = 4 << 20;
// All agents of a job connect at once. The kernel limits the backlog to net.core.somaxconn.
constexpr int kControlBacklog = 4096;
// Limit on the bytes of an agent's messages that the loop has not handled yet. Above it the server stops reading from
// the agent, and TCP holds the agent back.
constexpr std::size_t kMostUnhandled = std::size_t{8} << 20;
constexpr std::size_t kMessageOverhead = 512;  // approximate memory of a message in addition to its bytes
// If this many successive streams end at an unreadable message, give up. The next stream would end in the same way.
constexpr std::uint32_t kMostUnreadable = 5;

// The server sends no keepalive. An agent that dials in has its own keepalive, and replaces its stream. An agent over
// ssh has only this connection, which must survive a short cut and a stopped launcher. The job runner's pings check
// whether agents live.
void set_channel_arguments(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, handshake_milliseconds());
  builder.SetMaxReceiveMessageSize(kMaxControlBytes);
}

}  // namespace

// The callbacks of one agent's stream. Each call is posted to the loop. handled() follows each message.
struct StreamEvents {
  std::function<void(v1::AgentMessage, std::size_t bytes)> on_message;
  std::function<void()> on_done;
};

// One accepted stream. gRPC owns the reactor until OnDone; `self_` holds that ownership. Any thread may call send()
// and close(). They do nothing after OnDone.
class AgentStream final : public grpc::ServerBidiReactor<v1::AgentMessage, v1::LauncherMessage>,
                          public std::enable_shared_from_this<AgentStream> {
 public:
  explicit AgentStream(StreamEvents events) : events_(std::move(events)) {}

  void begin() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void send(v1::LauncherMessage message) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void close(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      close(grpc::Status::OK);
      return;
    }
    const std::size_t bytes = incoming_.ByteSizeLong() + kMessageOverhead;
    v1::AgentMessage message = std::move(incoming_);
    incoming_.Clear();
    {
      // Post under the lock, because handled() may start the next read. The message of that read must be posted after
      // this one.
      const std::lock_guard lock(mutex_);
      unhandled_ += bytes;
      is_held_back_ = unhandled_ > kMostUnhandled;
      events_.on_message(std::move(message), bytes);
      if (is_held_back_) return;
    }
    StartRead(&incoming_);
  }

  // Reports that a message of `bytes` bytes was handled.
  void handled(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    unhandled_ -= bytes;
    if (!is_held_back_ || finished_ || unhandled_ > kMostUnhandled / 2) return;
    is_held_back_ = false;
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    queue_.pop_front();
    if (ok && !finished_ && !queue_.empty()) StartWrite(&queue_.front());
  }

  void OnCancel() override { close(grpc::Status::CANCELLED); }

  void OnDone() override {
    events_.on_done();
    const auto last = std::move(self_);
  }

 private:
  const StreamEvents events_;
  v1::AgentMessage incoming_;
  std::mutex mutex_;
  std::deque<v1::LauncherMessage> queue_;  // the front is being written
  bool finished_ = false;
  std::size_t unhandled_ = 0;  // bytes
  bool is_held_back_ = false;  // true if no read is in progress
  std::shared_ptr<AgentStream> self_;
};

struct AgentSlot {
  std::string token;
  int hello_index = 0;
  std::shared_ptr<AgentStream> stream;  // null while the connection is cut
  proto::ReplayQueue<v1::LauncherMessage> outgoing;
  proto::ReplayQueue<v1::AgentMessage> incoming;
  bool known = false;  // true once a Hello was accepted
  bool forgotten = false;
};

struct ControlServer::State : std::enable_shared_from_this<ControlServer::State> {
  State(ControlServer& server_, base::Loop& loop_, ControlServerOptions options_)
      : owner(&server_), loop(loop_), options(std::move(options_)) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::LauncherMessage>* accept(grpc::CallbackServerContext* context);
  void arrived(const std::shared_ptr<AgentStream>& stream, int agent, v1::AgentMessage message);
  bool handle(const std::shared_ptr<AgentStream>& stream, int agent, const v1::AgentMessage& message);
  void hello(const std::shared_ptr<AgentStream>& stream, int known_agent, const v1::Hello& hello);
  void give_up(const std::shared_ptr<AgentStream>& stream, int agent);
  void done(const std::shared_ptr<AgentStream>& stream, int agent);
  bool is_stream_of(int agent, const std::shared_ptr<AgentStream>& stream);
  int agent_with(const std::string& token);  // any thread; -1 if no agent has this token
  int add(const std::string& token, std::optional<int> hello_index);
  AgentSlot* find(int agent);  // nullptr if the agent was forgotten
  base::Status listen();
  base::Status serve();

  // The service object that gRPC calls. It outlives all calls, because ~ControlServer shuts the server down and waits.
  class Service final : public v1::AgentControl::CallbackService {
   public:
    explicit Service(State& state) : state_(state) {}
    grpc::ServerBidiReactor<v1::AgentMessage, v1::LauncherMessage>* Attach(
        grpc::CallbackServerContext* context) override {
      return state_.accept(context);
    }

   private:
    State& state_;
  };

  ControlServer* owner;  // null once the ControlServer is destroyed; loop thread only
  base::Loop& loop;
  ControlServerOptions options;
  std::unordered_map<int, AgentSlot> agents;  // by number; forgotten agents stay until their streams have ended
  int next_agent = 0;
  std::mutex tokens_mutex;
  std::unordered_map<std::string, int> tokens;  // guarded by tokens_mutex
  Service service{*this};
  std::unique_ptr<GrpcErrors> grpc_errors;
  std::shared_ptr<ChangingCredentials> credentials;  // outlives the server
  std::unique_ptr<FrontDoor> door;                   // outlives the server too, because its calls use the door
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

namespace {

// Returns whether the peer may be an agent. A peer without a certificate came through an agent's own ssh channel.
bool may_be_agent(const grpc::AuthContext& auth, const std::string& job_id) {
  if (!auth.IsPeerAuthenticated()) return true;
  const std::string expected = proto::agent_uri(job_id);
  const auto uris = auth.FindPropertyValues("peer_uri");
  return std::any_of(uris.begin(), uris.end(),
                     [&](const grpc::string_ref& uri) { return std::string_view(uri.data(), uri.size()) == expected; });
}

std::string metadata_token(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("muster-token");
  return found == context.client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

grpc::ServerBidiReactor<v1::AgentMessage, v1::LauncherMessage>* ControlServer::State::accept(
    grpc::CallbackServerContext* context) {
  // The token identifies the agent. The certificate proves that the peer is an agent.
  const int allowed = agent_with(metadata_token(*context));
  const bool refused = allowed < 0 || !may_be_agent(*context->auth_context(), options.job_id);
  if (!refused) door->authenticated(context->peer());
  auto holder = std::make_shared<std::weak_ptr<AgentStream>>();
  StreamEvents events;
  events.on_message = [this, holder, allowed, refused](v1::AgentMessage message, std::size_t bytes) {
    if (refused) return;  // the agent's Hello may arrive before the refusal is sent
    loop.post(
        [state = weak_from_this(), stream = holder->lock(), allowed, bytes, message = std::move(message)]() mutable {
          if (const auto self = state.lock()) self->arrived(stream, allowed, std::move(message));
          if (stream != nullptr) stream->handled(bytes);
        });
  };
  events.on_done = [this, holder, allowed] {
    loop.post([state = weak_from_this(), stream = holder->lock(), allowed] {
      if (const auto self = state.lock()) self->done(stream, allowed);
    });
  };
  auto stream = std::make_shared<AgentStream>(std::move(events));
  *holder = stream;
  stream->begin();
  if (refused) stream->close({grpc::StatusCode::UNAUTHENTICATED, "this is not an agent of this launcher's job"});
  return stream.get();
}

int ControlServer::State::add(const std::string& token, std::optional<int> hello_index) {
  const int agent = next_agent++;
  AgentSlot& slot = agents[agent];
  slot.token = token;
  slot.hello_index = hello_index.value_or(agent);
  const std::lock_guard lock(tokens_mutex);
  tokens.emplace(token, agent);
  return agent;
}

int ControlServer::State::agent_with(const std::string& token) {
  const std::lock_guard lock(tokens_mutex);
  const auto found = tokens.find(token);
  return found == tokens.end() ? -1 : found->second;
}

AgentSlot* ControlServer::State::find(int agent) {
  const auto found = agents.find(agent);
  return found == agents.end() ? nullptr : &found->second;
}

bool ControlServer::State::is_stream_of(int agent, const std::shared_ptr<AgentStream>& stream) {
  const AgentSlot* const slot = find(agent);
  return slot != nullptr && slot->stream == stream;
}

void ControlServer::State::arrived(const std::shared_ptr<AgentStream>& stream, int agent, v1::AgentMessage message) {
  if (owner == nullptr || stream == nullptr) return;
  if (message.has_hello()) {
    hello(stream, agent, message.hello());
    return;
  }
  if (!is_stream_of(agent, stream)) return;  // ignore an older stream of an agent that has reconnected
  auto rest = std::move(*message.mutable_more());
  message.clear_more();
  bool is_any_new = handle(stream, agent, message);
  for (const v1::AgentMessage& next : rest) {
    // An earlier message may have ended this agent's stream or the launcher.
    if (owner == nullptr || !is_stream_of(agent, stream)) return;
    is_any_new = handle(stream, agent, next) || is_any_new;
  }
  if (!is_any_new || owner == nullptr || !is_stream_of(agent, stream)) return;
  v1::LauncherMessage ack;
  ack.set_ack(find(agent)->incoming.last_received());
  stream->send(std::move(ack));
}

// Handles one message. Returns true if it must be acknowledged. `stream` is the agent's current stream.
bool ControlServer::State::handle(const std::shared_ptr<AgentStream>& stream, int agent,
                                  const v1::AgentMessage& message) {
  AgentSlot& slot = *find(agent);
  slot.outgoing.acknowledged(message.ack());
  switch (slot.incoming.arrived(message.sequence())) {
    case proto::ReplayQueue<v1::AgentMessage>::Arrival::kDuplicate:
      return false;
    case proto::ReplayQueue<v1::AgentMessage>::Arrival::kGap:
      stream->close({grpc::StatusCode::DATA_LOSS, "a control message is missing"});
      return false;
    case proto::ReplayQueue<v1::AgentMessage>::Arrival::kNew:
      break;
  }
  if (message.body_case() != v1::AgentMessage::BODY_NOT_SET && owner->on_message) owner->on_message(agent, message);
  return message.sequence() != 0;
}

void ControlServer::State::hello(const std::shared_ptr<AgentStream>& stream, int known_agent, const v1::Hello& hello) {
  AgentSlot* const known = find(known_agent);
  if (known == nullptr || known->forgotten) {
    stream->close({grpc::StatusCode::FAILED_PRECONDITION, "the launcher has removed this agent from its job"});
    return;
  }
  AgentSlot& slot = *known;
  if (hello.job_id() != options.job_id || hello.agent_index() != slot.hello_index) {
    stream->close({grpc::StatusCode::FAILED_PRECONDITION, "the Hello names another job or agent than the token"});
    return;
  }
  if (hello.unreadable() >= kMostUnreadable) {
    give_up(stream, known_agent);
    return;
  }
  if (slot.stream != nullptr) slot.stream->close(grpc::Status::CANCELLED);
  slot.stream = stream;
  // Ignore the number of another launcher instance, because it does not match our queue.
  if (hello.launcher_instance() == options.launcher_instance) slot.outgoing.acknowledged(hello.resume_from());
  v1::LauncherMessage welcome;
  welcome.mutable_welcome()->set_launcher_instance(options.launcher_instance);
  welcome.mutable_welcome()->set_takes_more(true);
  welcome.mutable_welcome()->set_wants_load(options.wants_load);
  welcome.set_ack(slot.incoming.last_received());
  stream->send(std::move(welcome));
  for (const v1::LauncherMessage& message : slot.outgoing.pending()) stream->send(message);
  const bool resumed = std::exchange(slot.known, true);
  if (owner->on_hello) owner->on_hello(known_agent, hello, resumed);
}

// Orders the agent to end everything that it runs. The server does not send the unreadable message again, so that the
// agent can read this order.
void ControlServer::State::give_up(const std::shared_ptr<AgentStream>& stream, int agent) {
  v1::LauncherMessage leave;
  leave.mutable_leave();
  stream->send(std::move(leave));
  stream->close({grpc::StatusCode::FAILED_PRECONDITION, "given up"});
  if (owner->on_unreadable) owner->on_unreadable(agent);
}

void ControlServer::State::done(const std::shared_ptr<AgentStream>& stream, int agent) {
  if (owner == nullptr || stream == nullptr || !is_stream_of(agent, stream)) return;
  AgentSlot& slot = *find(agent);
  slot.stream = nullptr;
  if (slot.forgotten) agents.erase(agent);
  if (owner->on_cut) owner->on_cut(agent);
}

ControlServer::ControlServer() = default;

// gRPC does not listen itself. The front door accepts connections and hands them to gRPC.
base::Status ControlServer::State::serve() {
  grpc::ServerBuilder builder;
  set_channel_arguments(builder);
  builder.RegisterService(&service);
  acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  server = builder.BuildAndStart();
  if (server != nullptr) return base::ok_status();
  return base::internal_error("cannot start the control server: its certificate and key do not match");
}

base::Status ControlServer::State::listen() {
  auto listening = base::listen_any(static_cast<std::uint16_t>(options.port), kControlBacklog);
  if (!listening.ok()) {
    if (options.port != 0) {
      return base::unavailable("cannot listen for agents on TCP port {}: another program uses it", options.port);
    }
    return base::unavailable("cannot listen for agents on any TCP port of this machine: is the loopback interface up?");
  }
  MUSTER_ASSIGN_OR_RETURN(port, base::local_port(listening->get()));
  FrontDoorOptions about;
  // All agents may connect at once, so add their number to the limit for unauthenticated peers.
  about.most_unproven = [this] { return unproven_limit() + agents.size(); };
  about.name = "the control port";
  about.on_line = options.on_line;
  const auto hand_on = [this](base::UniqueFd fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = -1;
    connection.fd = fd.release();
    acceptor->HandleNewConnection(&connection);
  };
  MUSTER_ASSIGN_OR_RETURN(door, FrontDoor::open(loop, std::move(*listening), hand_on, std::move(about)));
  return base::ok_status();
}

base::Result<std::unique_ptr<ControlServer>> ControlServer::start(base::Loop& loop, ControlServerOptions options) {
  std::unique_ptr<ControlServer> result(new ControlServer());
  auto state = std::make_shared<State>(*result, loop, std::move(options));
  state->grpc_errors = std::make_unique<GrpcErrors>(state->options.on_grpc_error);
  state->credentials = std::make_shared<ChangingCredentials>(
      state->options.ca_pem, base::TlsIdentity{state->options.certificate_pem, state->options.key_pem});
  for (const KnownAgent& agent : state->options.agents) state->add(agent.token, agent.hello_index);
  // Open the door first, because gRPC uses it as soon as it serves.
  MUSTER_RETURN_IF_ERROR(state->listen());
  MUSTER_RETURN_IF_ERROR(state->serve());
  result->state_ = std::move(state);
  return result;
}

ControlServer::~ControlServer() {
  if (state_ == nullptr) return;
  state_->owner = nullptr;
  for (auto& [agent, slot] : state_->agents) {
    if (slot.stream != nullptr) slot.stream->close(grpc::Status::OK);
  }
  state_->door->close();
  state_->server->Shutdown(std::chrono::system_clock::now());
  state_->server->Wait();
}

int ControlServer::port() const {
  return state_->port;
}

int ControlServer::add_agent(const std::string& token) {
  state_->loop.assert_inside();
  return state_->add(token, std::nullopt);
}

base::Status ControlServer::add_connection(base::UniqueFd fd) {
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(fd.get(), true));
  grpc::AddInsecureChannelFromFd(state_->server.get(), fd.release());
  return base::ok_status();
}

void ControlServer::send(int agent, v1::LauncherMessage message) {
  state_->loop.assert_inside();
  AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr || slot->forgotten) return;
  proto::mend_text(message);
  message.set_ack(slot->incoming.last_received());
  const v1::LauncherMessage& numbered = slot->outgoing.push(std::move(message));
  if (slot->stream != nullptr) slot->stream->send(numbered);
}

void ControlServer::send_unnumbered(int agent, v1::LauncherMessage message) {
  state_->loop.assert_inside();
  const AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr || slot->stream == nullptr) return;
  proto::mend_text(message);
  message.set_ack(slot->incoming.last_received());
  slot->stream->send(std::move(message));
}

void ControlServer::set_keys(const std::string& ca_pem, const base::TlsIdentity& own) {
  state_->credentials->change(ca_pem, own);
}

void ControlServer::cut(int agent) {
  state_->loop.assert_inside();
  const AgentSlot* const slot = state_->find(agent);
  if (slot != nullptr && slot->stream != nullptr)
    slot->stream->close({grpc::StatusCode::UNAVAILABLE, "cut by the launcher"});
}

void ControlServer::forget(int agent) {
  state_->loop.assert_inside();
  AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr) return;
  slot->forgotten = true;
  slot->outgoing = {};
  {
    const std::lock_guard lock(state_->tokens_mutex);
    state_->tokens.erase(slot->token);
  }
  if (slot->stream == nullptr) {
    state_->agents.erase(agent);
  } else {
    slot->stream->close({grpc::StatusCode::FAILED_PRECONDITION, "given up"});
  }
}

std::size_t ControlServer::agents() const {
  return state_->agents.size();
}

}  // namespace muster::launcherd::service

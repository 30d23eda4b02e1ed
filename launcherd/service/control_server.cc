// ControlServer: State holds the agents, their numbers and the messages that wait for an acknowledgement.
// Read State::arrived() first, then hello() and handle(), then the public functions.
#include "launcherd/service/control_server.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/net.h"
#include "launcherd/service/control_streams.h"
#include "proto/control_frame.h"
#include "proto/control_key.h"
#include "proto/replay_queue.h"
#include "proto/text_fields.h"

namespace muster::launcherd::inline service {
namespace {

// All agents of a job connect at once. The kernel limits the backlog to net.core.somaxconn.
constexpr int kControlBacklog = 4096;
// The streams hold an agent back only above eight times this.
constexpr std::size_t kReportHandled = ControlStreams::kMostUnhandled / 8;

// A numbered message, as it was sent.
class SentMessage {
 public:
  explicit SentMessage(v1::LauncherMessage message) : message_(std::move(message)) {}
  std::uint64_t sequence() const { return sequence_; }
  // Numbers the message, and turns it into its frame.
  void set_sequence(std::uint64_t sequence);
  const std::shared_ptr<const std::string>& frame() const { return frame_; }

 private:
  std::uint64_t sequence_ = 0;
  v1::LauncherMessage message_;  // until it has its number
  std::shared_ptr<const std::string> frame_;
};

std::shared_ptr<const std::string> frame_of(const v1::LauncherMessage& message) {
  auto frame = std::make_shared<std::string>();
  const std::size_t size = message.ByteSizeLong();
  frame->reserve(proto::kControlHeaderSize + size);
  proto::append_control_header(proto::ControlKind::kMessage, size, *frame);
  MUSTER_CHECK(size <= proto::kMaxLauncherMessage && message.AppendToString(frame.get()));
  return frame;
}

void SentMessage::set_sequence(std::uint64_t sequence) {
  sequence_ = sequence;
  message_.set_sequence(sequence);
  frame_ = frame_of(message_);
  message_ = v1::LauncherMessage();
}

}  // namespace

struct AgentSlot {
  std::string identity;  // of its key
  int hello_index = 0;
  std::uint64_t stream = 0;  // 0 while the connection is cut
  proto::ReplayQueue<SentMessage> outgoing;
  proto::ReplayQueue<v1::AgentMessage> incoming;
  bool known = false;  // true once a Hello was accepted
};

struct ControlServer::State : std::enable_shared_from_this<ControlServer::State> {
  State(ControlServer& server_, base::Loop& loop_, ControlServerOptions options_)
      : owner(&server_), loop(loop_), options(std::move(options_)) {}

  using Arrival = proto::ReplayQueue<v1::AgentMessage>::Arrival;

  base::Status listen();
  int add(const std::string& token, std::optional<int> hello_index);
  AgentSlot* find(int agent);  // nullptr if the agent was forgotten
  void arrived(const std::vector<ControlArrival>& arrivals);
  void report_handled(std::uint64_t stream, std::size_t bytes);
  void take(const ControlArrival& arrival);
  void message(std::uint64_t stream, int agent, const v1::AgentMessage& message);
  void handle(std::uint64_t stream, int agent, const v1::AgentMessage& message);
  void hello(std::uint64_t stream, int agent, const v1::Hello& hello);
  void give_up(std::uint64_t stream, int agent);
  void ended(std::uint64_t stream);
  void send(std::uint64_t stream, const v1::LauncherMessage& message) { streams->send(stream, frame_of(message)); }
  void acknowledge();
  bool is_stream_of(int agent, std::uint64_t stream);

  ControlServer* owner;  // null once the ControlServer is destroyed
  base::Loop& loop;
  ControlServerOptions options;
  std::unordered_map<int, AgentSlot> agents;  // by number
  int next_agent = 0;
  std::unordered_map<std::string, int> by_identity;
  std::unordered_map<std::uint64_t, int> by_stream;           // also streams that have not sent Hello, or were replaced
  std::unordered_map<std::uint64_t, std::size_t> unreported;  // bytes by stream
  std::map<std::uint64_t, int> owed;                          // streams that get an acknowledgement, with their agents
  std::shared_ptr<base::TlsKeyRing> keys = std::make_shared<base::TlsKeyRing>();
  int port = 0;
  std::unique_ptr<ControlStreams> streams;  // last: its thread uses the keys
};

int ControlServer::State::add(const std::string& token, std::optional<int> hello_index) {
  const int agent = next_agent++;
  AgentSlot& slot = agents[agent];
  base::TlsKey key = proto::control_key(options.job_id, token);
  slot.identity = key.identity;
  slot.hello_index = hello_index.value_or(agent);
  by_identity[slot.identity] = agent;
  // Tokens are ours, so their lengths are right.
  MUSTER_CHECK(keys->add(std::move(key)).ok());
  if (streams != nullptr) streams->set_expected(agents.size());
  return agent;
}

AgentSlot* ControlServer::State::find(int agent) {
  const auto found = agents.find(agent);
  return found == agents.end() ? nullptr : &found->second;
}

bool ControlServer::State::is_stream_of(int agent, std::uint64_t stream) {
  const AgentSlot* const slot = find(agent);
  return slot != nullptr && slot->stream == stream;
}

void ControlServer::State::arrived(const std::vector<ControlArrival>& arrivals) {
  std::map<std::uint64_t, std::size_t> handled;
  for (const ControlArrival& arrival : arrivals) {
    take(arrival);
    if (owner == nullptr) return;
    if (arrival.kind == ControlArrival::Kind::kMessage) handled[arrival.stream] += arrival.bytes;
  }
  acknowledge();
  for (const auto& [stream, bytes] : handled) report_handled(stream, bytes);
}

// A report wakes the other thread, so a quiet stream gets few of them.
void ControlServer::State::report_handled(std::uint64_t stream, std::size_t bytes) {
  const auto entry = unreported.try_emplace(stream, 0).first;
  entry->second += bytes;
  if (entry->second < kReportHandled) return;
  streams->handled(stream, entry->second);
  unreported.erase(entry);
}

void ControlServer::State::take(const ControlArrival& arrival) {
  if (arrival.kind == ControlArrival::Kind::kProven) {
    const auto agent = by_identity.find(arrival.identity);
    if (agent == by_identity.end()) {
      streams->end(arrival.stream, "the launcher has removed this agent from its job");
    } else {
      by_stream.emplace(arrival.stream, agent->second);
    }
    return;
  }
  const auto found = by_stream.find(arrival.stream);
  if (found == by_stream.end()) return;  // of an agent that was removed
  const int agent = found->second;
  switch (arrival.kind) {
    case ControlArrival::Kind::kProven:
      break;
    case ControlArrival::Kind::kMessage:
      message(arrival.stream, agent, arrival.message);
      break;
    case ControlArrival::Kind::kUnreadable:
      give_up(arrival.stream, agent);
      break;
    case ControlArrival::Kind::kEnd:
      ended(arrival.stream);
      break;
  }
}

void ControlServer::State::message(std::uint64_t stream, int agent, const v1::AgentMessage& message) {
  if (message.has_hello()) return hello(stream, agent, message.hello());
  if (!is_stream_of(agent, stream)) return;  // an older stream of an agent that has reconnected, or one without Hello
  handle(stream, agent, message);
}

void ControlServer::State::handle(std::uint64_t stream, int agent, const v1::AgentMessage& message) {
  AgentSlot& slot = *find(agent);
  slot.outgoing.acknowledged(message.ack());
  const Arrival arrival = slot.incoming.arrived(message.sequence());
  if (arrival == Arrival::kGap) streams->end(stream, "a control message is missing");
  if (arrival != Arrival::kNew) return;
  if (message.sequence() != 0) owed[stream] = agent;
  if (message.body_case() != v1::AgentMessage::BODY_NOT_SET && owner->on_message) owner->on_message(agent, message);
}

// Acknowledges all that has arrived in this turn.
void ControlServer::State::acknowledge() {
  for (const auto& [stream, agent] : std::exchange(owed, {})) {
    if (!is_stream_of(agent, stream)) continue;
    v1::LauncherMessage ack;
    ack.set_ack(find(agent)->incoming.last_received());
    send(stream, ack);
  }
}

void ControlServer::State::hello(std::uint64_t stream, int agent, const v1::Hello& hello) {
  AgentSlot* const slot = find(agent);
  if (slot == nullptr) return;
  if (hello.job_id() != options.job_id || hello.agent_index() != slot->hello_index) {
    return streams->end(stream, "the Hello names another job or agent than its key");
  }
  if (slot->stream != 0) streams->end(slot->stream, "another stream of this agent has replaced this one");
  slot->stream = stream;
  // Ignore the number of another launcher instance, because it does not match our queue.
  if (hello.launcher_instance() == options.launcher_instance) slot->outgoing.acknowledged(hello.resume_from());
  v1::LauncherMessage welcome;
  welcome.mutable_welcome()->set_launcher_instance(options.launcher_instance);
  welcome.mutable_welcome()->set_wants_load(options.wants_load);
  welcome.set_ack(slot->incoming.last_received());
  send(stream, welcome);
  for (const SentMessage& message : slot->outgoing.pending()) streams->send(stream, message.frame());
  const bool resumed = std::exchange(slot->known, true);
  if (owner->on_hello) owner->on_hello(agent, hello, resumed);
}

// Orders the agent to end everything that it runs, because a message that was unreadable once stays so.
void ControlServer::State::give_up(std::uint64_t stream, int agent) {
  if (!is_stream_of(agent, stream)) return;
  v1::LauncherMessage leave;
  leave.mutable_leave();
  send(stream, leave);
  if (owner->on_unreadable) owner->on_unreadable(agent);
}

void ControlServer::State::ended(std::uint64_t stream) {
  const auto found = by_stream.find(stream);
  const int agent = found->second;
  by_stream.erase(found);
  unreported.erase(stream);
  if (!is_stream_of(agent, stream)) return;
  find(agent)->stream = 0;
  if (owner->on_cut) owner->on_cut(agent);
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
  ControlStreamsOptions about;
  about.keys = keys;
  about.listening = std::move(*listening);
  about.on_arrivals = [weak = weak_from_this()](std::vector<ControlArrival> arrivals) {
    if (const auto self = weak.lock()) self->arrived(arrivals);  // a callback may destroy the server
  };
  about.on_line = options.on_line;
  MUSTER_ASSIGN_OR_RETURN(streams, ControlStreams::start(loop, std::move(about)));
  // All agents may connect at once, so add their number to the limit for unproven peers.
  streams->set_expected(agents.size());
  return base::ok_status();
}

ControlServer::ControlServer() = default;

base::Result<std::unique_ptr<ControlServer>> ControlServer::start(base::Loop& loop, ControlServerOptions options) {
  std::unique_ptr<ControlServer> result(new ControlServer());
  auto state = std::make_shared<State>(*result, loop, std::move(options));
  for (const KnownAgent& agent : state->options.agents) state->add(agent.token, agent.hello_index);
  MUSTER_RETURN_IF_ERROR(state->listen());
  result->state_ = std::move(state);
  return result;
}

ControlServer::~ControlServer() {
  if (state_ == nullptr) return;
  state_->owner = nullptr;
  state_->streams.reset();
}

int ControlServer::port() const {
  return state_->port;
}

int ControlServer::add_agent(const std::string& token) {
  state_->loop.assert_inside();
  return state_->add(token, std::nullopt);
}

void ControlServer::add_connection(base::UniqueFd fd) {
  state_->streams->add_connection(std::move(fd));
}

void ControlServer::send(int agent, v1::LauncherMessage message) {
  state_->loop.assert_inside();
  AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr) return;
  proto::mend_text(message);
  message.set_ack(slot->incoming.last_received());
  const SentMessage& numbered = slot->outgoing.push(SentMessage(std::move(message)));
  if (slot->stream != 0) state_->streams->send(slot->stream, numbered.frame());
}

void ControlServer::send_unnumbered(int agent, v1::LauncherMessage message) {
  state_->loop.assert_inside();
  const AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr || slot->stream == 0) return;
  proto::mend_text(message);
  message.set_ack(slot->incoming.last_received());
  state_->send(slot->stream, message);
}

void ControlServer::cut(int agent) {
  state_->loop.assert_inside();
  const AgentSlot* const slot = state_->find(agent);
  if (slot != nullptr && slot->stream != 0) state_->streams->end(slot->stream, "cut by the launcher");
}

void ControlServer::forget(int agent) {
  state_->loop.assert_inside();
  AgentSlot* const slot = state_->find(agent);
  if (slot == nullptr) return;
  state_->keys->remove(slot->identity);
  state_->by_identity.erase(slot->identity);
  if (slot->stream != 0) state_->streams->end(slot->stream, "the launcher has removed this agent from its job");
  state_->agents.erase(agent);
}

std::size_t ControlServer::agents() const {
  return state_->agents.size();
}

}  // namespace muster::launcherd::service

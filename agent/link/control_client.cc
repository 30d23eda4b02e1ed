// ControlClient: State opens one LauncherStream after the other, and keeps what the launcher has not acknowledged.
// Read State::open(), welcomed() and ended() first, then arrived() and send().
#include "agent/link/control_client.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "agent/link/launcher_stream.h"
#include "agent/link/outgoing_messages.h"
#include "proto/replay_queue.h"
#include "proto/text_fields.h"

namespace muster::agent::inline link {
namespace {

using std::chrono::milliseconds;

// The time before the next attempt grows with the attempts that have failed in a row.
constexpr milliseconds kFirstDelay{200};
constexpr milliseconds kLongestDelay{1'000};
// Time limits of an attempt. A lost first packet is repeated by the next attempt, or by the kernel.
constexpr milliseconds kFirstConnect{1'000};
constexpr milliseconds kLongestConnect{10'000};
// From TCP's connection to the Welcome. The launcher serves thousands of agents in the order in which they came, so
// this is long: what it has done for an attempt that gives up is lost.
constexpr milliseconds kWelcomePatience{30'000};

milliseconds grown(milliseconds first, int failures, milliseconds most) {
  milliseconds value = first;
  for (int i = 0; i < failures && value < most; ++i) value = value * 8 / 5;
  return std::min(value, most);
}

}  // namespace

struct ControlClient::State : std::enable_shared_from_this<ControlClient::State> {
  State(ControlClient& owner_, base::Loop& loop_, ControlClientOptions options_, v1::Hello hello_)
      : owner(&owner_), loop(loop_), hello(std::move(hello_)), options(std::move(options_)) {}

  bool is_relayed() const { return way && way->is_relay; }
  bool is_over_mux() const { return options.route == nullptr && !options.open_channel; }
  void open();
  void begin(LauncherStream& with);
  void say_hello();
  void welcomed(const v1::LauncherMessage& message);
  void send(v1::AgentMessage message);
  void write_soon();
  void arrived(const v1::LauncherMessage& message);
  void ended(const StreamEnd& end);
  milliseconds around(milliseconds value);

  ControlClient* owner;  // null once the ControlClient is destroyed
  base::Loop& loop;
  v1::Hello hello;
  ControlClientOptions options;
  std::shared_ptr<LauncherStream> stream;
  OutgoingMessages outgoing;
  proto::ReplayQueue<v1::LauncherMessage> incoming;
  std::optional<LauncherRoute::Way> way;  // of this stream
  int failures = 0;                       // attempts in a row without a Welcome
  bool welcome = false;                   // the Welcome has arrived on this stream
  std::optional<std::string> instance;    // of the last Welcome
  // An acknowledgement of what has arrived must be sent, unless another message carries it.
  bool owes_ack = false;
  bool is_due = false;  // write_soon() was called in this turn of the loop
  base::Timer reopen;
  base::Timer give_up;  // armed until the stream has its Welcome
  std::minstd_rand random{std::random_device{}()};
};

milliseconds ControlClient::State::around(milliseconds value) {
  std::uniform_int_distribution<milliseconds::rep> range(value.count() * 4 / 5, value.count() * 6 / 5);
  return milliseconds(range(random));
}

void ControlClient::State::open() {
  welcome = false;
  LauncherStream::Events events;
  events.on_open = [this] {
    give_up = loop.after(kWelcomePatience, [this] { ended({"the launcher has not answered in time", false}); });
  };
  events.on_up = [this] { say_hello(); };
  events.on_message = [this](const v1::LauncherMessage& message) { arrived(message); };
  events.on_end = [this](const base::Status& why, bool by_peer) {
    ended({why.message(), by_peer && !is_relayed()});  // the end of a relay says nothing about the launcher
  };
  stream = std::make_shared<LauncherStream>(loop, options.key, std::move(events));
  const auto keep = stream;  // it may end at once
  begin(*keep);
}

void ControlClient::State::begin(LauncherStream& with) {
  if (options.open_channel) {
    auto channel = options.open_channel([weak = std::weak_ptr(stream)] {
      if (const auto ready = weak.lock()) ready->channel_ready();
    });
    if (channel == nullptr) return ended({"there is no connection", true});
    return with.use(std::move(channel));
  }
  if (options.route == nullptr) return with.use(std::move(options.fd));
  way = options.route->way(options.port, failures);
  give_up = loop.after(around(grown(kFirstConnect, failures, kLongestConnect)), [this] {
    ended({"the launcher's machine does not answer", false});
  });
  with.connect(*way);
}

void ControlClient::State::say_hello() {
  v1::AgentMessage first;
  *first.mutable_hello() = hello;
  first.mutable_hello()->set_resume_from(incoming.last_received());
  first.mutable_hello()->set_launcher_instance(instance.value_or(""));
  if (owner->on_hello) owner->on_hello(*first.mutable_hello());
  proto::mend_text(first);
  stream->send(first);
  write_soon();
}

void ControlClient::State::welcomed(const v1::LauncherMessage& message) {
  const std::string& now = message.welcome().launcher_instance();
  const bool is_another = instance && *instance != now;
  instance = now;
  // Only now does the client know which messages the launcher has. Messages sent earlier might arrive twice.
  welcome = true;
  failures = 0;
  give_up.cancel();
  if (way) options.route->succeeded(*way);
  if (is_another) {
    outgoing = OutgoingMessages();
    incoming = {};
    owes_ack = false;
    if (owner->on_new_launcher) owner->on_new_launcher();
    return;
  }
  outgoing.acknowledged(message.ack());
  for (const v1::AgentMessage& pending : outgoing.pending()) stream->send(pending);
  write_soon();
}

// Writes at the end of this turn of the loop. All messages of the turn travel together, with an acknowledgement.
void ControlClient::State::write_soon() {
  if (std::exchange(is_due, true)) return;
  loop.post([state = weak_from_this()] {
    const auto self = state.lock();
    if (self == nullptr) return;
    self->is_due = false;
    if (self->stream == nullptr) return;
    // A stream without a Welcome has sent the acknowledgement in its Hello.
    if (std::exchange(self->owes_ack, false) && self->welcome) {
      v1::AgentMessage ack;
      ack.set_ack(self->incoming.last_received());
      self->stream->send(ack);
    }
    const auto keep = self->stream;
    keep->flush();
  });
}

void ControlClient::State::arrived(const v1::LauncherMessage& message) {
  if (message.has_welcome()) {
    welcomed(message);
  } else {
    outgoing.acknowledged(message.ack());
  }
  if (owner == nullptr) return;
  if (incoming.arrived(message.sequence()) != proto::ReplayQueue<v1::LauncherMessage>::Arrival::kNew) return;
  if (message.sequence() != 0) {
    owes_ack = true;
    write_soon();
  }
  if (message.body_case() != v1::LauncherMessage::BODY_NOT_SET && owner->on_message) owner->on_message(message);
}

void ControlClient::State::ended(const StreamEnd& end) {
  if (const auto last = std::exchange(stream, nullptr)) last->close();
  give_up.cancel();
  const bool was_welcome = std::exchange(welcome, false);
  // A connection through ssh cannot be opened again.
  if (!is_over_mux()) {
    reopen = loop.after(around(grown(kFirstDelay, failures, kLongestDelay)), [this] { open(); });
    if (!was_welcome) ++failures;
  }
  if (owner->on_cut) owner->on_cut(end);
}

void ControlClient::State::send(v1::AgentMessage message) {
  proto::mend_text(message);
  message.set_ack(incoming.last_received());
  const v1::AgentMessage* const numbered = outgoing.push(std::move(message));
  if (numbered == nullptr || !welcome) return;
  owes_ack = false;
  stream->send(*numbered);
  write_soon();
}

ControlClient::ControlClient() = default;

std::unique_ptr<ControlClient> ControlClient::start(base::Loop& loop, ControlClientOptions options, v1::Hello hello) {
  std::unique_ptr<ControlClient> client(new ControlClient());
  client->state_ = std::make_shared<State>(*client, loop, std::move(options), std::move(hello));
  // Begin from the loop, after the caller has set the callbacks.
  client->state_->reopen = loop.after(base::Duration::zero(), [state = client->state_.get()] { state->open(); });
  return client;
}

ControlClient::~ControlClient() {
  state_->owner = nullptr;
  state_->reopen.cancel();
  state_->give_up.cancel();
  const auto last = std::exchange(state_->stream, nullptr);
  if (last == nullptr) return;
  last->leave();
}

std::optional<LauncherRoute::Way> ControlClient::relay() const {
  if (!state_->welcome || !state_->is_relayed()) return std::nullopt;
  return state_->way;
}

void ControlClient::reconnect(const std::string& why) {
  state_->loop.assert_inside();
  if (state_->stream == nullptr || state_->is_over_mux()) return;
  state_->ended({why, false});
  state_->failures = 0;  // the next attempt takes the best way
}

void ControlClient::send(v1::AgentMessage message) {
  state_->loop.assert_inside();
  for (v1::AgentMessage& notice : state_->outgoing.take_drop_notices()) state_->send(std::move(notice));
  state_->send(std::move(message));
}

void ControlClient::send_unnumbered(v1::AgentMessage message) {
  state_->loop.assert_inside();
  if (!state_->welcome || state_->stream->unwritten() > kMostUnwritten) return;
  proto::mend_text(message);
  message.set_ack(state_->incoming.last_received());
  state_->owes_ack = false;
  state_->stream->send(message);
  state_->write_soon();
}

}  // namespace muster::agent::link

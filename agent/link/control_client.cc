// The whole of ControlClient. LauncherStream is one gRPC stream, on gRPC's threads; State is everything else, on the
// loop.
// Read State::open(), welcomed() and done() first, then arrived() and send(), then LauncherStream.

#include "agent/link/control_client.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "agent/link/outgoing_messages.h"
#include "proto/muster/v1/agent.grpc.pb.h"
#include "proto/replay_queue.h"
#include "proto/text_fields.h"

namespace muster::agent::inline link {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReopenDelay{200};
// If a stream fails because its first message cannot be read, it ends within this time, even on a busy machine.
constexpr milliseconds kSoon{5'000};
// Time limits from a dial to the Welcome. If thousands of agents dial at once, the launcher needs seconds for their
// handshakes.
// If an attempt gives up, the launcher's work for it is lost. So each attempt waits longer than the last.
constexpr milliseconds kFirstPatience{1'000};
constexpr milliseconds kLongestPatience{20'000};
// The time allowed between the end of the launcher's messages and the stream's status. Normally they come together. The
// status comes late only if one side could not read a message.
constexpr milliseconds kStatusGrace{500};
constexpr std::size_t kMaxJoined = 64 * 1024;  // bytes of messages that are joined into one
// Limits of the launcher's messages that the loop has not handled, and of our messages that the launcher has not
// read. Beyond either limit the client reads nothing. The launcher then gets no answers and asks for nothing more, and
// TCP slows it down.
constexpr std::size_t kMostUnhandled = std::size_t{8} << 20;
constexpr std::size_t kMostUnwritten = std::size_t{8} << 20;
constexpr std::size_t kMessageOverhead = 512;  // roughly what a message takes in memory besides its bytes

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  // The server's certificate is checked by CA and name, never by address, so that any interface may be used.
  arguments.SetSslTargetNameOverride("launcherd");
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC dials again soon after a refusal. If there is no answer, this client ends the attempt, and not gRPC.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2 * kLongestPatience.count());
  // Otherwise a new channel would wait for the connection attempt of an old one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // No size limit: a Launch holds the commands and variables of all ranks of this host, and the launcher has proved
  // its identity.
  arguments.SetMaxReceiveMessageSize(-1);
  return arguments;
}

std::shared_ptr<grpc::Channel> make_channel(ControlClientOptions& options) {
  if (options.fd.valid()) {
    return grpc::CreateCustomInsecureChannelFromFd("launcherd", options.fd.release(), channel_arguments());
  }
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.ca_pem;
  tls.pem_private_key = options.key_pem;
  tls.pem_cert_chain = options.certificate_pem;
  // Detect a cut soon and dial again. The link over ssh cannot be dialled again, so it gets no keepalive.
  grpc::ChannelArguments arguments = channel_arguments();
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 500);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const std::string scheme = options.endpoint.starts_with("[") ? "ipv6:" : "ipv4:";
  return grpc::CreateCustomChannel(scheme + options.endpoint, grpc::SslCredentials(tls), arguments);
}

// True if gRPC closed the transport because the peer was silent. gRPC uses one code for all ends of a transport, so
// this function searches the text of the error.
bool is_silence(const std::string& reason) {
  const auto contains = [&reason](std::string_view words) { return reason.find(words) != std::string::npos; };
  return contains("keepalive") || contains("ping timeout") || contains("timed out") || contains("unreachable");
}

}  // namespace

class LauncherStream;

struct LauncherStreamEvents {
  // Called for each message. It must post the message to the loop, which later calls handled().
  std::function<void(v1::LauncherMessage, std::size_t bytes)> on_message;
  // Called if the launcher will send nothing more, or has sent something that cannot be read.
  std::function<void()> on_read_end;
  // Called last. It takes over the stream, which it must release on the loop.
  std::function<void(std::shared_ptr<LauncherStream>, const grpc::Status&)> on_done;
};

// One stream. gRPC owns the reactor until OnDone; `self_`, a shared_ptr to itself, stands for that ownership.
class LauncherStream final : public grpc::ClientBidiReactor<v1::AgentMessage, v1::LauncherMessage>,
                             public std::enable_shared_from_this<LauncherStream> {
 public:
  explicit LauncherStream(LauncherStreamEvents events) : events_(std::move(events)) {}

  void begin(v1::AgentControl::Stub& stub, const std::string& token) {
    self_ = shared_from_this();
    context_.AddMetadata("muster-token", token);
    context_.set_wait_for_ready(true);
    stub.async()->Attach(&context_, this);
    StartRead(&incoming_);
    AddHold();  // needed because writes start outside of reactions; stop_writing() removes it
    StartCall();
  }

  // Queues a message. flush() writes it, so that messages of one turn of the loop travel together.
  void send(v1::AgentMessage message) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    unwritten_ += size_of(message);
    queue_.push_back(std::move(message));
  }

  // True if too many bytes wait, because the launcher does not read.
  bool is_full() {
    const std::lock_guard lock(mutex_);
    return unwritten_ > kMostUnwritten;
  }

  void flush() {
    const std::lock_guard lock(mutex_);
    if (!is_writing_) write_next();
  }

  // Call it if the launcher understands AgentMessage.more.
  void may_join() {
    const std::lock_guard lock(mutex_);
    joins_ = true;
  }

  // Returns the number of the last message that the launcher has acknowledged by messages without a body.
  std::uint64_t acknowledged() const { return acknowledged_; }

  void close() {
    stop_writing();
    context_.TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Do not call TryCancel() here. It would overtake the status that says why the launcher has ended.
      stop_writing();
      events_.on_read_end();
      return;
    }
    {
      // Post under the lock. handled() may start the next read, whose message must be posted after this one.
      const std::lock_guard lock(mutex_);
      if (incoming_.body_case() == v1::LauncherMessage::BODY_NOT_SET) {
        // The message is only an acknowledgement, so the loop need not handle it.
        acknowledged_ = std::max(acknowledged_.load(), incoming_.ack());
      } else {
        const std::size_t bytes = size_of(incoming_);
        unhandled_ += bytes;
        events_.on_message(std::move(incoming_), bytes);
      }
      incoming_.Clear();
      is_held_back_ = unhandled_ > kMostUnhandled || unwritten_ > kMostUnwritten;
      if (is_held_back_) return;
    }
    StartRead(&incoming_);
  }

  // Call this when a message of this size has been handled.
  void handled(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    unhandled_ -= bytes;
    read_on();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (ok) {
      write_next();
    } else {  // the next read finds out why the stream has ended
      queue_.clear();
      unwritten_ = 0;
    }
    read_on();
  }

  // Hand the stream over to the loop instead of releasing it here. The stream may be the last owner of its channel, and
  // the destructor of the last channel waits for the end of gRPC's callback threads.
  // This function runs on such a thread, which would wait for itself. gRPC 1.51 then frees memory that it still uses.
  void OnDone(const grpc::Status& status) override {
    const auto on_done = events_.on_done;  // a copy, because `events_` may be gone before the call returns
    on_done(std::move(self_), status);
  }

 private:
  template <typename Message>
  static std::size_t size_of(const Message& message) {
    return message.ByteSizeLong() + kMessageOverhead;
  }

  // Call it with the lock held.
  void read_on() {
    if (!is_held_back_ || closed_ || unhandled_ > kMostUnhandled / 2 || unwritten_ > kMostUnwritten / 2) return;
    is_held_back_ = false;
    StartRead(&incoming_);
  }

  void stop_writing() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    RemoveHold();
  }

  v1::AgentMessage take_first() {
    v1::AgentMessage first = std::move(queue_.front());
    queue_.pop_front();
    unwritten_ -= size_of(first);
    return first;
  }

  void write_next() {
    if (closed_ || queue_.empty()) return;
    is_writing_ = true;
    writing_ = take_first();
    std::size_t size = joins_ ? writing_.ByteSizeLong() : kMaxJoined;
    while (!queue_.empty()) {
      size += queue_.front().ByteSizeLong();
      if (size > kMaxJoined) break;
      *writing_.add_more() = take_first();
    }
    StartWrite(&writing_);
  }

  const LauncherStreamEvents events_;
  grpc::ClientContext context_;
  v1::LauncherMessage incoming_;
  std::mutex mutex_;
  std::deque<v1::AgentMessage> queue_;
  v1::AgentMessage writing_;
  std::size_t unwritten_ = 0;  // bytes of queue_
  std::size_t unhandled_ = 0;  // bytes of the launcher's messages that the loop must still handle
  bool is_held_back_ = false;  // no read is under way
  bool is_writing_ = false;
  bool joins_ = false;
  std::atomic<std::uint64_t> acknowledged_{0};
  bool closed_ = false;
  std::shared_ptr<LauncherStream> self_;
};

struct ControlClient::State : std::enable_shared_from_this<ControlClient::State> {
  State(ControlClient& owner_, base::Loop& loop_, ControlClientOptions options_, v1::Hello hello_)
      : owner(&owner_),
        loop(loop_),
        token(options_.token),
        over_mux(options_.fd.valid()),
        hello(std::move(hello_)),
        options(std::move(options_)),
        stub(v1::AgentControl::NewStub(make_channel(options))) {}

  void open();
  void dial_again();
  void welcomed(const v1::LauncherMessage& message);
  void write(v1::AgentMessage message);
  void send(v1::AgentMessage message);
  void write_soon();
  void arrived(const LauncherStream* from, const v1::LauncherMessage& message);
  void done(const LauncherStream* from, const grpc::Status& status);
  // Returns the number of numbered messages that were handled, in both directions.
  std::uint64_t handled() const { return incoming.last_received() + outgoing.last_acknowledged(); }
  void wait_until_no_stream();

  ControlClient* owner;  // null once the ControlClient is destroyed; loop thread only
  base::Loop& loop;
  const std::string token;
  const bool over_mux;
  v1::Hello hello;
  ControlClientOptions options;
  std::unique_ptr<v1::AgentControl::Stub> stub;
  std::shared_ptr<LauncherStream> stream;
  OutgoingMessages outgoing;
  proto::ReplayQueue<v1::LauncherMessage> incoming;
  bool welcome = false;                 // the Welcome has arrived on this stream
  std::optional<std::string> instance;  // of the last Welcome
  base::MonotonicTime welcomed_at{};
  std::uint64_t progress = 0;    // handled() at the last Welcome
  std::uint32_t unreadable = 0;  // Hello.unreadable
  // An acknowledgement of what has arrived must be sent, unless another message carries it.
  bool owes_ack = false;
  bool is_due = false;  // write_soon() was called in this turn of the loop
  base::Timer reopen;
  base::Timer give_up;  // armed until the stream has its Welcome
  base::Timer no_status;
  milliseconds patience = kFirstPatience;
  std::minstd_rand random{std::random_device{}()};
  std::mutex live_mutex;
  std::condition_variable live_changed;
  int live_streams = 0;  // number of reactors that gRPC still owns
};

// Drops the stream and opens another one on a new connection.
void ControlClient::State::dial_again() {
  const auto last = std::exchange(stream, nullptr);  // clear it first, so that its end does not count as a cut
  no_status.cancel();
  patience = std::min(patience * 8 / 5, kLongestPatience);
  stub = v1::AgentControl::NewStub(make_channel(options));
  open();
  last->close();
}

void ControlClient::State::open() {
  if (!over_mux) {
    std::uniform_int_distribution<milliseconds::rep> around(patience.count() * 4 / 5, patience.count() * 6 / 5);
    give_up = loop.after(milliseconds(around(random)), [this] { dial_again(); });
  }
  LauncherStreamEvents events;
  auto holder = std::make_shared<std::weak_ptr<LauncherStream>>();
  events.on_message = [this, holder](v1::LauncherMessage message, std::size_t bytes) {
    loop.post([state = weak_from_this(), from = holder->lock(), bytes, message = std::move(message)] {
      if (const auto self = state.lock()) self->arrived(from.get(), message);
      if (from != nullptr) from->handled(bytes);
    });
  };
  events.on_read_end = [this, holder] {
    loop.post([state = weak_from_this(), from = *holder] {
      const auto self = state.lock();
      const auto ended = from.lock();
      if (self == nullptr || ended == nullptr || ended != self->stream) return;
      self->no_status = self->loop.after(kStatusGrace, [from] {
        if (const auto silent = from.lock()) silent->close();
      });
    });
  };
  events.on_done = [this](std::shared_ptr<LauncherStream> ended, const grpc::Status& status) {
    loop.post([state = weak_from_this(), from = std::move(ended), status] {
      if (const auto self = state.lock()) self->done(from.get(), status);
    });
    const std::lock_guard lock(live_mutex);
    --live_streams;
    live_changed.notify_all();
  };
  {
    const std::lock_guard lock(live_mutex);
    ++live_streams;
  }
  welcome = false;
  stream = std::make_shared<LauncherStream>(std::move(events));
  *holder = stream;
  stream->begin(*stub, token);
  v1::AgentMessage first;
  *first.mutable_hello() = hello;
  first.mutable_hello()->set_resume_from(incoming.last_received());
  first.mutable_hello()->set_launcher_instance(instance.value_or(""));
  first.mutable_hello()->set_unreadable(unreadable);
  if (owner->on_hello) owner->on_hello(*first.mutable_hello());
  proto::mend_text(first);
  write(std::move(first));
}

void ControlClient::State::write(v1::AgentMessage message) {
  stream->send(std::move(message));
  write_soon();
}

void ControlClient::State::welcomed(const v1::LauncherMessage& message) {
  const std::string& now = message.welcome().launcher_instance();
  const bool is_another = instance && *instance != now;
  instance = now;
  // Only now does the client know which messages the launcher has. Messages sent earlier might arrive twice.
  welcome = true;
  welcomed_at = std::chrono::steady_clock::now();
  give_up.cancel();
  patience = kFirstPatience;
  if (message.welcome().takes_more()) stream->may_join();
  if (is_another) {
    outgoing = OutgoingMessages();
    incoming = {};
    owes_ack = false;
    progress = 0;
    unreadable = 0;
    if (owner->on_new_launcher) owner->on_new_launcher();
    return;
  }
  outgoing.acknowledged(message.ack());
  progress = handled();
  for (const v1::AgentMessage& pending : outgoing.pending()) write(pending);
}

// Writes at the end of this turn of the loop. All messages of the turn travel together, with an acknowledgement.
void ControlClient::State::write_soon() {
  if (std::exchange(is_due, true)) return;
  loop.post([state = weak_from_this()] {
    const auto self = state.lock();
    if (self == nullptr) return;
    self->is_due = false;
    if (self->stream == nullptr) return;
    if (self->welcome) self->outgoing.acknowledged(self->stream->acknowledged());
    // A stream without a Welcome has sent the acknowledgement in its Hello.
    if (std::exchange(self->owes_ack, false) && self->welcome) {
      v1::AgentMessage ack;
      ack.set_ack(self->incoming.last_received());
      self->stream->send(std::move(ack));
    }
    self->stream->flush();
  });
}

void ControlClient::State::arrived(const LauncherStream* from, const v1::LauncherMessage& message) {
  if (owner == nullptr || from != stream.get()) return;
  if (message.has_welcome()) {
    welcomed(message);
  } else {
    outgoing.acknowledged(message.ack());
  }
  if (incoming.arrived(message.sequence()) != proto::ReplayQueue<v1::LauncherMessage>::Arrival::kNew) return;
  if (message.sequence() != 0) {
    owes_ack = true;
    write_soon();
  }
  if (message.body_case() != v1::LauncherMessage::BODY_NOT_SET && owner->on_message) owner->on_message(message);
}

void ControlClient::State::done(const LauncherStream* from, const grpc::Status& status) {
  if (owner == nullptr || from != stream.get()) return;
  const bool was_welcome = std::exchange(welcome, false);
  outgoing.acknowledged(stream->acknowledged());
  stream = nullptr;
  give_up.cancel();
  no_status.cancel();
  // Decide whether the stream ended because one side could not read a message. A cut connection nearly always gives
  // UNAVAILABLE. The reader of a message gives other codes: OK from the launcher, CANCELLED from this client, or gRPC's
  // code for an exceeded limit. The unreadable message comes right after Welcome.
  const bool lives = was_welcome && status.error_code() != grpc::StatusCode::UNAVAILABLE;
  const bool is_soon = std::chrono::steady_clock::now() - welcomed_at < kSoon;
  const bool is_unreadable = lives && is_soon && handled() == progress && (!status.ok() || !outgoing.pending().empty());
  if (was_welcome) unreadable = is_unreadable ? unreadable + 1 : 0;
  if (owner->on_cut) owner->on_cut({status.error_message(), !is_silence(status.error_message())});
  // A channel through ssh cannot be opened again. If it still works, it carries the next stream.
  if (!over_mux || lives) {
    reopen = loop.after(kReopenDelay, [this] { open(); });
  }
}

void ControlClient::State::wait_until_no_stream() {
  std::unique_lock lock(live_mutex);
  live_changed.wait(lock, [this] { return live_streams == 0; });
}

ControlClient::ControlClient() = default;

std::unique_ptr<ControlClient> ControlClient::start(base::Loop& loop, ControlClientOptions options, v1::Hello hello) {
  // Silence gRPC's own log. The agent's stderr is the ssh channel, where gRPC's lines would look like ours.
  gpr_set_log_function([](gpr_log_func_args*) {});
  std::unique_ptr<ControlClient> client(new ControlClient());
  client->state_ = std::make_shared<State>(*client, loop, std::move(options), std::move(hello));
  client->state_->open();
  return client;
}

ControlClient::~ControlClient() {
  state_->owner = nullptr;
  state_->reopen.cancel();
  state_->give_up.cancel();
  state_->no_status.cancel();
  if (state_->stream != nullptr) state_->stream->close();
  state_->wait_until_no_stream();
}

void ControlClient::renew(const v1::Renewal& renewal) {
  state_->loop.assert_inside();
  if (state_->over_mux) return;
  ControlClientOptions& options = state_->options;
  options.ca_pem = renewal.ca_pem();
  options.certificate_pem = renewal.certificate_pem();
  options.key_pem = renewal.key_pem();
  state_->stub = v1::AgentControl::NewStub(make_channel(options));  // the old channel lives as long as its stream
}

void ControlClient::State::send(v1::AgentMessage message) {
  proto::mend_text(message);
  message.set_ack(incoming.last_received());
  const v1::AgentMessage* const numbered = outgoing.push(std::move(message));
  if (numbered == nullptr || !welcome) return;
  owes_ack = false;
  if (stream != nullptr) write(*numbered);
}

void ControlClient::send(v1::AgentMessage message) {
  state_->loop.assert_inside();
  for (v1::AgentMessage& notice : state_->outgoing.take_drop_notices()) state_->send(std::move(notice));
  state_->send(std::move(message));
}

void ControlClient::send_unnumbered(v1::AgentMessage message) {
  state_->loop.assert_inside();
  if (state_->stream == nullptr || !state_->welcome || state_->stream->is_full()) return;
  proto::mend_text(message);
  message.set_ack(state_->incoming.last_received());
  state_->owes_ack = false;
  state_->write(std::move(message));
}

}  // namespace muster::agent::link

// EnrolmentServer: Listener accepts connections. Newcomer serves one of them from the TLS handshake to the end of its
// agent.
// Read Newcomer::serve and talk first, then decide and send_answer, then Listener.
#include "launcherd/enrol/enrolment_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>

#include "base/clock.h"
#include "base/net.h"
#include "base/tls.h"
#include "base/tls_pump.h"
#include "proto/enrolment.h"

namespace muster::launcherd::inline enrol {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsATurn = 64;
constexpr int kMostNotes = 20;  // limits notes, so that a port scan does not fill a terminal
constexpr auto kPauseWithoutDescriptors = std::chrono::milliseconds(100);

}  // namespace

struct EnrolmentServer::State {
  struct Key {
    std::shared_ptr<EnrolmentSeats> seats;
    std::function<void(const std::string& host)> on_enrolled;
  };

  State(EnrolmentOptions options_, std::shared_ptr<base::TlsKeyRing> ring_, base::TlsContext context_)
      : options(std::move(options_)), ring(std::move(ring_)), context(std::move(context_)) {}

  Key key_of(const std::string& identity) {
    const std::lock_guard lock(mutex);
    const auto found = keys.find(identity);
    return found != keys.end() ? found->second : Key{};
  }
  void note(const std::string& line) {
    if (options.on_note && notes++ < kMostNotes) options.on_note(line);
  }

  const EnrolmentOptions options;
  const std::shared_ptr<base::TlsKeyRing> ring;
  const base::TlsContext context;
  std::mutex mutex;
  std::map<std::string, Key> keys;  // by identity; guarded by mutex
  // Used by the pump's thread only:
  std::list<Newcomer*> unproven;  // the oldest one is first
  int notes = 0;
};

// One connection, from accept to the end of its agent.
class EnrolmentServer::Newcomer final : public PumpItem {
 public:
  Newcomer(std::shared_ptr<State> state, base::UniqueFd fd)
      : state_(std::move(state)), peer_(address_of(fd.get())), stream_(std::in_place, state_->context, std::move(fd)) {
    place_ = state_->unproven.insert(state_->unproven.end(), this);
  }
  ~Newcomer() override {
    leave_unproven();
    // The connection broke before the agent got its reply, so free the seat.
    if (assigned_) seats_->release(*std::move(assigned_));
    if (seat_) seats_->left(*seat_);
  }
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;

  void give_up() {
    deadline_ = base::monotonic_now();
    leave_unproven();
  }

  void prepare(std::span<pollfd, kFds> fds) override {
    if (pump_) return pump_->prepare(fds[0], fds[1]);
    fds[0] = {stream_->fd(), static_cast<short>(wants_to_write_ ? POLLOUT : POLLIN), 0};
  }

  std::optional<base::MonotonicTime> deadline() const override {
    if (!pump_) return deadline_;
    // If bytes are left after a turn, serve again at once. Other items get their turn first.
    return pump_->has_more() ? std::optional(base::MonotonicTime{}) : std::nullopt;
  }

  bool serve(std::span<const pollfd, kFds> /*fds*/) override {
    if (pump_) return pump_->step();
    if (base::monotonic_now() >= deadline_) {
      state_->note(fmt::format("{}: did not prove in time that it is an agent", peer_text()));
      return false;
    }
    const auto continues = talk();
    // An agent connects to all our addresses at once and drops the slower connections, so do not report these.
    const bool is_usual = phase_ == Phase::kHandshake && continues.status().code() == base::Code::kUnavailable;
    if (!continues.ok() && !is_usual) state_->note(fmt::format("{}: {}", peer_text(), continues.status().message()));
    return continues.ok() && *continues;
  }

  void ask_to_end() override {
    if (pump_) (void)pump_->step();  // pass on the agent's last bytes
    pump_.reset();
    stream_.reset();
  }

 private:
  enum class Phase { kHandshake, kHello, kAnswer };

  static std::optional<base::IpAddress> address_of(int fd) {
    const auto address = base::peer_address(fd);
    return address.ok() ? std::optional(*address) : std::nullopt;
  }
  std::string peer_text() const { return peer_ ? "connection from " + peer_->str() : std::string("a connection"); }

  void leave_unproven() {
    if (place_) state_->unproven.erase(*place_);
    place_.reset();
  }

  // Returns false if the connection is over.
  base::Result<bool> talk() {
    wants_to_write_ = false;
    if (phase_ == Phase::kHandshake) {
      MUSTER_ASSIGN_OR_RETURN(const base::TlsProgress progress, stream_->handshake_step());
      wants_to_write_ = progress == base::TlsProgress::kWantWrite;
      if (progress != base::TlsProgress::kDone) return true;
      phase_ = Phase::kHello;
      wanted_ = proto::kEnrolmentHeader;
    }
    if (phase_ == Phase::kHello) {
      MUSTER_ASSIGN_OR_RETURN(const bool is_whole, read_hello());
      if (!is_whole) return true;
      MUSTER_RETURN_IF_ERROR(decide());
      phase_ = Phase::kAnswer;
    }
    return send_answer();
  }

  base::Result<bool> read_hello() {
    for (;;) {
      while (text_.size() < wanted_) {
        char buffer[512];
        MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved,
                                stream_->read(buffer, std::min(sizeof buffer, wanted_ - text_.size())));
        if (moved.progress == base::TlsProgress::kEof) return base::unavailable("the agent closed the connection");
        if (moved.bytes == 0) return false;
        text_.append(buffer, moved.bytes);
      }
      if (wanted_ > proto::kEnrolmentHeader) return true;
      MUSTER_ASSIGN_OR_RETURN(const std::size_t size, proto::enrolment_size(text_));
      wanted_ += size;
    }
  }

  base::Status decide() {
    MUSTER_ASSIGN_OR_RETURN(const proto::EnrolmentHello hello,
                            proto::decode_hello(std::string_view(text_).substr(proto::kEnrolmentHeader)));
    auto seat = assign_seat(hello);
    is_accepted_ = seat.ok();
    std::string text = seat.status().message();
    if (is_accepted_) {
      assigned_ = *std::move(seat);
      text = assigned_->name;
    } else if (state_->options.on_refused) {
      state_->options.on_refused(text);
    }
    answer_ = proto::encode_answer({.is_taken = is_accepted_, .text = std::move(text)});
    return base::ok_status();
  }

  base::Result<EnrolmentSeats::AssignedSeat> assign_seat(const proto::EnrolmentHello& hello) {
    const State::Key key = state_->key_of(stream_->peer_identity());
    if (key.seats == nullptr)
      return base::not_found("an agent connected too late: the launcher waits for no more agents");
    if (hello.build_id != state_->options.build_id) {
      return base::failed_precondition(
          "the agent of host {} is from another build ({}, not {}): start the program that the launcher names",
          hello.names.front(), hello.build_id, state_->options.build_id);
    }
    on_enrolled_ = key.on_enrolled;
    seats_ = key.seats;
    const auto own = base::local_address(stream_->fd());
    return key.seats->assign(hello, {peer_, own.ok() ? std::optional(*own) : std::nullopt});
  }

  base::Result<bool> send_answer() {
    while (!answer_.empty()) {
      MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved, stream_->write(answer_.data(), answer_.size()));
      wants_to_write_ = moved.progress == base::TlsProgress::kWantWrite;
      if (moved.bytes == 0) return true;
      answer_.erase(0, moved.bytes);
    }
    if (!is_accepted_) {
      stream_->close_notify();
      return false;
    }
    leave_unproven();
    keep_alive();
    const std::string host = assigned_->name;
    seat_ = assigned_->seat;
    pump_.emplace(std::move(*stream_), std::move(assigned_->stream));
    assigned_.reset();
    stream_.reset();
    if (on_enrolled_) on_enrolled_(host);
    return pump_->step();
  }

  // Sets keepalive only if the options ask for it. Otherwise the lease decides when a silent host is lost.
  void keep_alive() const {
    const int on = 1;
    (void)::setsockopt(stream_->fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const int seconds = static_cast<int>(state_->options.keep_alive.count());
    if (seconds == 0) return;
    constexpr int kProbes = 4;
    const int pause = std::max(1, seconds / kProbes);
    (void)::setsockopt(stream_->fd(), IPPROTO_TCP, TCP_KEEPIDLE, &pause, sizeof pause);
    (void)::setsockopt(stream_->fd(), IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    (void)::setsockopt(stream_->fd(), IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  }

  const std::shared_ptr<State> state_;
  const std::optional<base::IpAddress> peer_;
  std::optional<base::TlsStream> stream_;
  std::optional<base::TlsPump> pump_;  // set once the agent has enrolled
  std::optional<std::list<Newcomer*>::iterator> place_;
  base::MonotonicTime deadline_ = base::monotonic_now() + state_->options.proof_time;
  Phase phase_ = Phase::kHandshake;
  bool wants_to_write_ = false;
  std::size_t wanted_ = 0;
  std::string text_;
  std::string answer_;
  bool is_accepted_ = false;
  std::shared_ptr<EnrolmentSeats> seats_;
  std::optional<EnrolmentSeats::AssignedSeat> assigned_;  // until the reply was sent
  std::optional<std::size_t> seat_;                       // set once the reply was sent
  std::function<void(const std::string& host)> on_enrolled_;
};

class EnrolmentServer::Listener final : public PumpItem {
 public:
  Listener(Pump& pump, std::shared_ptr<State> state, base::UniqueFd fd)
      : pump_(pump), state_(std::move(state)), fd_(std::move(fd)) {}

  void prepare(std::span<pollfd, kFds> fds) override {
    if (retry_at_ && base::monotonic_now() >= *retry_at_) retry_at_.reset();
    fds[0] = {retry_at_ ? -1 : fd_.get(), POLLIN, 0};
  }
  std::optional<base::MonotonicTime> deadline() const override { return retry_at_; }

  bool serve(std::span<const pollfd, kFds> /*fds*/) override {
    for (int i = 0; i < kAcceptsATurn; ++i) {
      base::UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd.valid()) {
        const bool is_usual = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        if (!is_usual) retry_at_ = base::monotonic_now() + kPauseWithoutDescriptors;
        return true;
      }
      if (state_->unproven.size() >= state_->options.max_unproven) state_->unproven.front()->give_up();
      const base::Status added = pump_.add(std::make_unique<Newcomer>(state_, std::move(fd)));
      if (!added.ok()) state_->note(added.message());
    }
    return true;
  }

  void ask_to_end() override { fd_.reset(); }

 private:
  Pump& pump_;
  const std::shared_ptr<State> state_;
  base::UniqueFd fd_;
  std::optional<base::MonotonicTime> retry_at_;
};

base::Result<std::unique_ptr<EnrolmentServer>> EnrolmentServer::start(Pump& pump, EnrolmentOptions options) {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, options.address
                                                        ? base::listen_on(*options.address, options.port, kBacklog)
                                                        : base::listen_any(options.port, kBacklog));
  std::unique_ptr<EnrolmentServer> server(new EnrolmentServer());
  MUSTER_ASSIGN_OR_RETURN(server->port_, base::local_port(listening.get()));
  auto ring = std::make_shared<base::TlsKeyRing>();
  MUSTER_ASSIGN_OR_RETURN(base::TlsContext context, base::TlsContext::server(ring));
  server->state_ = std::make_shared<State>(std::move(options), std::move(ring), std::move(context));
  MUSTER_RETURN_IF_ERROR(pump.add(std::make_unique<Listener>(pump, server->state_, std::move(listening))));
  return server;
}

base::Status EnrolmentServer::open(const std::string& identity, const std::string& token,
                                   std::shared_ptr<EnrolmentSeats> seats,
                                   std::function<void(const std::string& host)> on_enrolled) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->keys[identity] = {std::move(seats), std::move(on_enrolled)};
  }
  return state_->ring->add({identity, token});
}

void EnrolmentServer::close(const std::string& identity) {
  state_->ring->remove(identity);
  const std::lock_guard lock(state_->mutex);
  state_->keys.erase(identity);
}

}  // namespace muster::launcherd::enrol

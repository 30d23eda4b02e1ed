// The handshake of a connection: both sides as one state machine.
// Read step() and next() first, then the messages in their order: make_hello(), read_hello(), read_challenge(),
// read_proof().
#include "collectives/transport/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/hmac.h"
#include "base/ids.h"
#include "base/little_endian.h"

namespace muster::collectives::inline transport {
namespace {

using base::Code;
using Turn = Handshake::Turn;

// The last character is the version of the handshake and of the link's format.
constexpr std::string_view kMagic = "mstrlnk1";
constexpr std::size_t kPurposeAt = 8;
constexpr std::size_t kSourceAt = 12;
constexpr std::size_t kDestinationAt = 16;
constexpr std::size_t kCommunicatorAt = 20;
constexpr std::size_t kCommunicatorSize = kMaxCommunicatorName + 1;
constexpr std::size_t kNonceAt = kCommunicatorAt + kCommunicatorSize;
constexpr std::size_t kNonceSize = 32;
static_assert(kNonceAt + kNonceSize == Handshake::kHelloSize);
static_assert(kNonceSize + base::kHmacSize == Handshake::kChallengeSize);
static_assert(base::kHmacSize == Handshake::kProofSize);

// These words begin what the MACs cover. They have one length, so that the fields behind them begin at the same place.
constexpr std::string_view kListener = "muster link listener 1";
constexpr std::string_view kSealingListener = "muster link seals    1";
constexpr std::string_view kCaller = "muster link caller   1";
constexpr std::string_view kKeyOfCaller = "muster key  caller   1";
constexpr std::string_view kKeyOfListener = "muster key  listener 1";
static_assert(kListener.size() == kCaller.size() && kListener.size() == kSealingListener.size());

// Sent as the purpose of an encrypted link. Purpose itself has no such value.
constexpr std::uint32_t kEncryptedLink = 3;

std::uint32_t purpose_of(const LinkRequest& request) {
  return request.is_encrypted ? kEncryptedLink : static_cast<std::uint32_t>(request.purpose);
}

std::array<char, Handshake::kHelloSize> make_hello(const LinkRequest& request) {
  MUSTER_CHECK(request.communicator.size() <= kMaxCommunicatorName);
  std::array<char, Handshake::kHelloSize> hello{};
  std::ranges::copy(kMagic, hello.begin());
  base::put_little_endian(&hello[kPurposeAt], purpose_of(request));
  base::put_little_endian(&hello[kSourceAt], static_cast<std::uint32_t>(request.source));
  base::put_little_endian(&hello[kDestinationAt], static_cast<std::uint32_t>(request.destination));
  std::ranges::copy(request.communicator, &hello[kCommunicatorAt]);
  base::random_bytes(&hello[kNonceAt], kNonceSize);
  return hello;
}

base::Status refuse(std::string_view why) {
  return base::unauthenticated("a connection was refused: {}", why);
}

}  // namespace

Handshake::Handshake(base::UniqueFd socket, std::string secret, State state)
    : socket_(std::move(socket)), secret_(std::move(secret)), state_(state) {}

Handshake::~Handshake() {
  base::wipe(secret_);
}

Handshake Handshake::call(base::UniqueFd socket, std::string secret, const LinkRequest& request) {
  Handshake handshake(std::move(socket), std::move(secret), State::kSendsHello);
  handshake.request_ = request;
  handshake.is_caller_ = true;
  handshake.hello_ = make_hello(request);
  handshake.buffer_ = handshake.hello_;
  handshake.transfer(State::kSendsHello, kHelloSize);
  return handshake;
}

Handshake Handshake::answer(base::UniqueFd socket, std::string secret, int own_rank, bool encrypts) {
  Handshake handshake(std::move(socket), std::move(secret), State::kReadsHello);
  handshake.own_rank_ = own_rank;
  handshake.encrypts_ = encrypts;
  handshake.transfer(State::kReadsHello, kHelloSize);
  return handshake;
}

void Handshake::transfer(State state, std::size_t size) {
  state_ = state;
  size_ = size;
  moved_ = 0;
}

bool Handshake::is_sending() const {
  return state_ == State::kSendsHello || state_ == State::kSendsChallenge || state_ == State::kSendsProof;
}

base::Result<Handshake::Turn> Handshake::step() {
  while (state_ != State::kDone) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_whole, move_bytes());
    if (!is_whole) return is_sending() ? Turn::kWantsWrite : Turn::kWantsRead;
    MUSTER_RETURN_IF_ERROR(next());
  }
  return Turn::kDone;
}

base::Result<bool> Handshake::move_bytes() {
  while (moved_ < size_) {
    char* const at = buffer_.data() + moved_;
    const std::size_t left = size_ - moved_;
    const ssize_t n =
        is_sending() ? ::send(fd(), at, left, MSG_NOSIGNAL | MSG_DONTWAIT) : ::recv(fd(), at, left, MSG_DONTWAIT);
    if (n == 0) return base::unavailable("the peer closed the connection during the handshake");
    if (n > 0) {
      moved_ += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    if (state_ == State::kSendsHello && moved_ == 0) return base::Status(Code::kUnavailable, std::strerror(errno));
    return base::unavailable("the connection broke during the handshake: {}", std::strerror(errno));
  }
  return true;
}

base::Status Handshake::next() {
  switch (state_) {
    case State::kSendsHello:
      transfer(State::kReadsChallenge, kChallengeSize);
      return base::ok_status();
    case State::kReadsChallenge:
      return read_challenge();
    case State::kReadsHello:
      return read_hello();
    case State::kSendsChallenge:
      transfer(State::kReadsProof, kProofSize);
      return base::ok_status();
    case State::kReadsProof:
      return read_proof();
    case State::kSendsProof:
    case State::kDone:
      state_ = State::kDone;
      return base::ok_status();
  }
  return base::ok_status();
}

std::string Handshake::mac_of_listener(bool encrypts, std::string_view nonce) const {
  const base::HmacDigest mac = base::hmac_sha256(secret_, {encrypts ? kSealingListener : kListener, hello(), nonce});
  return {mac.data(), mac.size()};
}

base::Status Handshake::differs(bool listener_encrypts) const {
  const int one = listener_encrypts ? request_.destination : request_.source;
  const int other = listener_encrypts ? request_.source : request_.destination;
  return base::failed_precondition(
      "rank {} encrypts its connections and rank {} does not: set MUSTER_ENCRYPT=1 for all ranks or for "
      "none",
      one, other);
}

base::Status Handshake::read_challenge() {
  const std::string_view message(buffer_.data(), size_);
  std::ranges::copy(message.substr(0, kNonceSize), listener_nonce_.begin());
  const std::string_view nonce(listener_nonce_.data(), listener_nonce_.size());
  const std::string_view mac = message.substr(kNonceSize);
  if (!base::is_equal_in_constant_time(mac_of_listener(request_.is_encrypted, nonce), mac)) {
    const bool is_other = base::is_equal_in_constant_time(mac_of_listener(!request_.is_encrypted, nonce), mac);
    if (is_other && request_.purpose == LinkRequest::Purpose::kLink) return differs(!request_.is_encrypted);
    return refuse("the listener does not know the job's secret");
  }
  const base::HmacDigest proof = base::hmac_sha256(secret_, {kCaller, hello(), nonce});
  std::ranges::copy(proof, buffer_.begin());
  transfer(State::kSendsProof, kProofSize);
  return base::ok_status();
}

base::Status Handshake::read_proof() {
  const std::string_view message(buffer_.data(), size_);
  const std::string_view nonce(listener_nonce_.data(), listener_nonce_.size());
  const base::HmacDigest expected = base::hmac_sha256(secret_, {kCaller, hello(), nonce});
  if (!base::is_equal_in_constant_time({expected.data(), expected.size()}, message)) {
    return refuse("the caller does not know the job's secret");
  }
  if (request_.purpose == LinkRequest::Purpose::kLink && request_.is_encrypted != encrypts_) return differs(encrypts_);
  state_ = State::kDone;
  return base::ok_status();
}

Connection Handshake::take_connection() {
  Connection made{take_socket(), std::nullopt};
  if (!request_.is_encrypted) return made;
  const std::string nonces =
      std::string(hello().substr(kNonceAt, kNonceSize)) + std::string(listener_nonce_.data(), listener_nonce_.size());
  const auto key = [&](std::string_view whose) { return derive_key(secret_, nonces, std::string(whose) += hello()); };
  RecordKeys& keys = made.keys.emplace();
  keys.sending = key(is_caller_ ? kKeyOfCaller : kKeyOfListener);
  keys.receiving = key(is_caller_ ? kKeyOfListener : kKeyOfCaller);
  return made;
}

base::Status Handshake::read_hello() {
  std::ranges::copy(buffer_, hello_.begin());
  if (hello().substr(0, kMagic.size()) != kMagic)
    return refuse("the caller does not speak this version of Muster's link protocol");
  const auto purpose = base::get_little_endian<std::uint32_t>(&hello_[kPurposeAt]);
  const auto source = base::get_little_endian<std::uint32_t>(&hello_[kSourceAt]);
  const auto destination = base::get_little_endian<std::uint32_t>(&hello_[kDestinationAt]);
  const std::string_view name = hello().substr(kCommunicatorAt, kCommunicatorSize);
  const std::size_t length = std::min(name.find('\0'), kCommunicatorSize);
  const bool is_padded = name.substr(length).find_first_not_of('\0') == std::string_view::npos;
  const bool is_link = purpose == static_cast<std::uint32_t>(LinkRequest::Purpose::kLink) || purpose == kEncryptedLink;
  if (!is_link && purpose != static_cast<std::uint32_t>(LinkRequest::Purpose::kSession)) {
    return refuse("the caller asks for an unknown purpose");
  }
  if (source > INT_MAX || destination > INT_MAX || length == kCommunicatorSize || !is_padded) {
    return refuse("the caller's request is malformed");
  }
  if (static_cast<int>(destination) != own_rank_) return refuse("the caller asks for another rank");
  request_ = {is_link ? LinkRequest::Purpose::kLink : LinkRequest::Purpose::kSession, static_cast<int>(source),
              static_cast<int>(destination), std::string(name.substr(0, length)), purpose == kEncryptedLink};

  base::random_bytes(listener_nonce_.data(), listener_nonce_.size());
  const std::string_view nonce(listener_nonce_.data(), listener_nonce_.size());
  const std::string mac = mac_of_listener(is_link && encrypts_, nonce);
  std::ranges::copy(nonce, buffer_.begin());
  std::ranges::copy(mac, buffer_.begin() + kNonceSize);
  transfer(State::kSendsChallenge, kChallengeSize);
  return base::ok_status();
}

}  // namespace muster::collectives::transport

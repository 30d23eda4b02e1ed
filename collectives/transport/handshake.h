// Who may connect: mutual challenge and response with the job's secret (HMAC-SHA256) before anything else is read.
// Messages have fixed sizes; nothing that the peer sends is a length. Numbers are little-endian.
//
//   caller   -> Hello      magic (8), purpose, source rank, destination rank (4 each), communicator (64, NUL-padded),
//                          the caller's nonce (32)
//   listener -> Challenge  the listener's nonce (32), MAC("listener", Hello, listener's nonce) (32)
//   caller   -> Proof      MAC("caller", Hello, listener's nonce) (32)
//
// Both MACs cover both nonces and who is who, so that neither a recorded nor a reflected message is an answer. Bytes
// after the Proof are the link's: the handshake never reads beyond its own.
//
// Whether a link is encrypted is part of its purpose, and of the word in the listener's MAC: both ends have to be set
// to the same, and an end that finds the other one set otherwise gives up. The keys (record.h) follow from the secret
// and both nonces.
//
// Both sides are state machines on a non-blocking socket: call step() when it is readable or writable. One thread at a
// time. After an error, and when it is destroyed before the end, the connection is closed with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/transport/record.h"

namespace muster::collectives::inline transport {

inline constexpr std::size_t kMaxCommunicatorName = 63;

struct LinkRequest {
  enum class Purpose : std::uint8_t { kLink = 1, kSession = 2 };
  Purpose purpose = Purpose::kLink;
  int source = 0;  // ranks of the world
  int destination = 0;
  std::string communicator;   // at most kMaxCommunicatorName bytes, none of them NUL
  bool is_encrypted = false;  // of kLink
  bool operator==(const LinkRequest&) const = default;
};

// What a handshake has made.
struct Connection {
  base::UniqueFd socket;
  std::optional<RecordKeys> keys;  // of an encrypted link
};

class Handshake {
 public:
  static constexpr std::size_t kHelloSize = 8 + 3 * 4 + 64 + 32;
  static constexpr std::size_t kChallengeSize = 32 + 32;
  static constexpr std::size_t kProofSize = 32;

  static Handshake call(base::UniqueFd socket, std::string secret, const LinkRequest& request);
  // `own_rank`: what the caller must have asked for. `encrypts`: its links.
  static Handshake answer(base::UniqueFd socket, std::string secret, int own_rank, bool encrypts = false);
  ~Handshake();  // wipes the secret
  Handshake(Handshake&&) noexcept = default;
  Handshake& operator=(Handshake&&) = delete;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  enum class Turn { kWantsRead, kWantsWrite, kDone };
  // UNAUTHENTICATED: the peer does not know the secret, is something else, or wants another rank. FAILED_PRECONDITION:
  // one end encrypts, the other one does not. UNAVAILABLE: the peer has closed the connection, or the network has. The
  // connection is to be closed then.
  base::Result<Turn> step();
  int fd() const { return socket_.get(); }
  // After kDone.
  const LinkRequest& request() const { return request_; }
  base::UniqueFd take_socket() { return std::move(socket_); }
  Connection take_connection();

 private:
  enum class State {
    kSendsHello,
    kReadsChallenge,
    kSendsProof,  // the caller's
    kReadsHello,
    kSendsChallenge,
    kReadsProof,  // the listener's
    kDone,
  };

  Handshake(base::UniqueFd socket, std::string secret, State state);
  void transfer(State state, std::size_t size);  // the next `size` bytes of buffer_ go or come
  bool is_sending() const;
  base::Result<bool> move_bytes();  // true: all of them
  base::Status next();
  base::Status take_hello();
  base::Status take_challenge();
  base::Status take_proof();
  std::string mac_of_listener(bool encrypts, std::string_view nonce) const;
  base::Status differs(bool listener_encrypts) const;
  std::string_view hello() const { return {hello_.data(), hello_.size()}; }

  base::UniqueFd socket_;
  std::string secret_;
  LinkRequest request_;
  int own_rank_ = 0;
  bool is_caller_ = false;
  bool encrypts_ = false;  // the listener
  State state_;
  std::array<char, kHelloSize> hello_{};
  std::array<char, 32> listener_nonce_{};
  std::array<char, kHelloSize> buffer_{};  // of the message that is under way: the largest is Hello
  std::size_t size_ = 0;
  std::size_t moved_ = 0;
};

}  // namespace muster::collectives::transport

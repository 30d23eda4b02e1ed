// Decides which processes may connect. Both sides prove that they know the job's secret by challenge and response
// (HMAC-SHA256), before anything else is read. Messages have fixed sizes, and nothing that the peer sends is a length.
// Numbers are little-endian.
//
//   caller   -> Hello      magic (8), purpose, source rank, destination rank (4 each), communicator (64, NUL-padded),
//                          the caller's nonce (32)
//   listener -> Challenge  the listener's nonce (32), MAC("listener", Hello, listener's nonce) (32)
//   caller   -> Proof      MAC("caller", Hello, listener's nonce) (32)
//
// Both MACs cover both nonces and both roles. So neither a recorded nor a reflected message is a valid answer. Bytes
// after the Proof belong to the link, and the handshake never reads them.
//
// Encryption is part of the link's purpose, and of the word in the listener's MAC. Both ends must have the same
// setting. An end that finds a difference fails. The keys (record.h) are derived from the secret and both nonces.
//
// Both sides are state machines on a non-blocking socket: call step() when it is readable or writable.
// Thread: one at a time.
// Errors: after an error, the handshake closes the connection. So does destroying it before the end.
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
  int source = 0;  // source and destination: ranks of the world
  int destination = 0;
  std::string communicator;   // at most kMaxCommunicatorName bytes, none of them NUL
  bool is_encrypted = false;  // only for kLink
  bool operator==(const LinkRequest&) const = default;
};

// The result of a handshake.
struct Connection {
  base::UniqueFd socket;
  std::optional<RecordKeys> keys;  // set for an encrypted link
};

class Handshake {
 public:
  static constexpr std::size_t kHelloSize = 8 + 3 * 4 + 64 + 32;
  static constexpr std::size_t kChallengeSize = 32 + 32;
  static constexpr std::size_t kProofSize = 32;

  static Handshake call(base::UniqueFd socket, std::string secret, const LinkRequest& request);
  // `own_rank` is the rank that the caller must ask for. `encrypts` says whether this rank encrypts links.
  static Handshake answer(base::UniqueFd socket, std::string secret, int own_rank, bool encrypts = false);
  ~Handshake();  // wipes the secret
  Handshake(Handshake&&) noexcept = default;
  Handshake& operator=(Handshake&&) = delete;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  enum class Turn { kWantsRead, kWantsWrite, kDone };
  // UNAUTHENTICATED if the peer does not know the secret, is no Muster process, or wants another rank.
  // FAILED_PRECONDITION if only one end encrypts. UNAVAILABLE if the peer or the network closed the connection. The
  // caller must close the connection then.
  base::Result<Turn> step();
  int fd() const { return socket_.get(); }
  // Call the following only after kDone.
  const LinkRequest& request() const { return request_; }
  base::UniqueFd take_socket() { return std::move(socket_); }
  Connection take_connection();

 private:
  enum class State {
    kSendsHello,
    kReadsChallenge,
    kSendsProof,  // only the caller
    kReadsHello,
    kSendsChallenge,
    kReadsProof,  // only the listener
    kDone,
  };

  Handshake(base::UniqueFd socket, std::string secret, State state);
  void transfer(State state, std::size_t size);  // sends or receives the next `size` bytes of buffer_
  bool is_sending() const;
  base::Result<bool> move_bytes();  // true when all bytes have moved
  base::Status next();
  base::Status read_hello();
  base::Status read_challenge();
  base::Status read_proof();
  std::string mac_of_listener(bool encrypts, std::string_view nonce) const;
  base::Status differs(bool listener_encrypts) const;
  std::string_view hello() const { return {hello_.data(), hello_.size()}; }

  base::UniqueFd socket_;
  std::string secret_;
  LinkRequest request_;
  int own_rank_ = 0;
  bool is_caller_ = false;
  bool encrypts_ = false;  // only for the listener
  State state_;
  std::array<char, kHelloSize> hello_{};
  std::array<char, 32> listener_nonce_{};
  std::array<char, kHelloSize> buffer_{};  // the message in progress; Hello is the largest
  std::size_t size_ = 0;
  std::size_t moved_ = 0;
};

}  // namespace muster::collectives::transport

// What a rank and its host of keys say to each other, as bytes: the agent of its host (agent.sock), or, without a
// launcher, rank 0. docs/rendezvous-protocol.md describes it for other implementations.
//
// Protocol (ours), each frame little endian: u32 bytes of what follows | u8 type | fields. Numbers have fixed sizes;
// text is a u32 length and so many bytes. A frame is exactly as long as its fields. Every length is checked against the
// bounds below before anything is stored.
//
// Pure values; a SessionReader belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace muster::rendezvous {

inline constexpr std::uint32_t kSessionVersion = 2;
inline constexpr std::size_t kSessionSecretBytes = 32;
inline constexpr std::size_t kMaxSessionKey = 4 << 10;
inline constexpr std::size_t kMaxSessionValue = 8 << 20;
inline constexpr std::size_t kMaxSessionText = 4 << 10;  // of what is wrong, or why a rank has ended
inline constexpr std::size_t kMaxSessionFrame = 64 + kMaxSessionKey + kMaxSessionValue;  // after the length

// From the rank. The first message of a connection, and only that.
struct SessionHello {
  std::uint32_t version = kSessionVersion;
  std::int32_t rank = 0;
  bool operator==(const SessionHello&) const = default;
};
// Answered by SessionPutDone. `id` is the rank's own, not in use for another request.
struct SessionPut {
  std::uint64_t id = 0;
  std::string key;
  std::string value;
  bool operator==(const SessionPut&) const = default;
};
// Answered by SessionValue as soon as the key exists.
struct SessionWait {
  std::uint64_t id = 0;
  std::string key;
  bool operator==(const SessionWait&) const = default;
};
// No answer to that SessionWait is wanted any more; one that is on its way is ignored.
struct SessionCancel {
  std::uint64_t id = 0;
  bool operator==(const SessionCancel&) const = default;
};
// The last message of a rank that leaves as it should.
struct SessionGoodbye {
  bool operator==(const SessionGoodbye&) const = default;
};

// To the rank. The answer to SessionHello, and the first message.
struct SessionWelcome {
  std::uint32_t version = kSessionVersion;  // the lower of both
  std::string secret;                       // kSessionSecretBytes, the same for all ranks of the job
  std::uint32_t generation = 0;             // how many hellos this rank had said before
  bool operator==(const SessionWelcome&) const = default;
};
struct SessionPutDone {
  std::uint64_t id = 0;
  base::Code code = base::Code::kOk;
  std::string text;  // what is wrong
  bool operator==(const SessionPutDone&) const = default;
};
struct SessionValue {
  std::uint64_t id = 0;
  base::Code code = base::Code::kOk;
  std::string bytes;  // the value; with another code: what is wrong
  bool operator==(const SessionValue&) const = default;
};
// News: this rank has ended, or has left. Each is told once, also to those that come later.
struct SessionEnded {
  std::int32_t rank = 0;
  bool failed = false;
  std::string cause;  // follows the rank's name: "was killed by signal 9 (SIGKILL)"
  bool operator==(const SessionEnded&) const = default;
};

// News, from version 2 on: the launcher does not hear from the host of this rank, or hears from it again. The rank may
// well run.
struct SessionSilence {
  std::int32_t rank = 0;
  bool is_silent = false;
  bool operator==(const SessionSilence&) const = default;
};

using SessionMessage = std::variant<SessionHello, SessionPut, SessionWait, SessionCancel, SessionGoodbye,
                                    SessionWelcome, SessionPutDone, SessionValue, SessionEnded, SessionSilence>;

// The first version that has SessionSilence.
inline constexpr std::uint32_t kSessionSilenceVersion = 2;

// INVALID_ARGUMENT, with the sentence for it: longer than a frame can carry. What encode() is given has been checked.
base::Status check_session_key(std::string_view key);
base::Status check_session_value(std::string_view value);

// The whole frame. Texts that are too long are cut; keys and values must not be.
std::string encode_session(const SessionMessage& message);

// Cuts a stream into messages.
class SessionReader {
 public:
  void append(std::string_view bytes) { bytes_.append(bytes); }
  // nullopt: the next one is not complete. INVALID_ARGUMENT: no such frame exists; the stream cannot be used any more.
  base::Result<std::optional<SessionMessage>> next();
  bool is_empty() const { return at_ == bytes_.size(); }  // between two messages
  // Bytes that complete the next message, or its header; never more than the message: for who must not read further.
  std::size_t missing() const;

 private:
  std::string bytes_;
  std::size_t at_ = 0;  // consumed so far
};

}  // namespace muster::rendezvous

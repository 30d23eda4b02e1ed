// The byte format of the messages between a rank and the host of its keys. That host is its agent (agent.sock), or rank
// 0 without a launcher. docs/rendezvous-protocol.md describes it for other implementations.
//
// Protocol (ours), each frame little endian: u32 number of bytes that follow | u8 type | fields. Numbers have fixed
// sizes.
// Text is a u32 length and that many bytes. A frame is exactly as long as its fields. Every length is checked against
// the limits below before anything is stored.
//
// Thread: these are pure values; a SessionReader belongs to one thread at a time.
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
inline constexpr std::size_t kMaxSessionText = 4 << 10;  // for an error, or for the reason why a rank ended
inline constexpr std::size_t kMaxSessionFrame = 64 + kMaxSessionKey + kMaxSessionValue;  // without its length field

// The rank sends it once, as the first message of its connection.
struct SessionHello {
  std::uint32_t version = kSessionVersion;
  std::int32_t rank = 0;
  bool operator==(const SessionHello&) const = default;
};
// SessionPutDone answers it. `id` is the rank's own choice, and no other open request may have it.
struct SessionPut {
  std::uint64_t id = 0;
  std::string key;
  std::string value;
  bool operator==(const SessionPut&) const = default;
};
// SessionValue answers it as soon as the key exists.
struct SessionWait {
  std::uint64_t id = 0;
  std::string key;
  bool operator==(const SessionWait&) const = default;
};
// Cancels a SessionWait. The rank ignores an answer that is already on its way.
struct SessionCancel {
  std::uint64_t id = 0;
  bool operator==(const SessionCancel&) const = default;
};
// The last message of a rank that leaves in good order.
struct SessionGoodbye {
  bool operator==(const SessionGoodbye&) const = default;
};

// The host sends it to the rank as its first message, in answer to SessionHello.
struct SessionWelcome {
  std::uint32_t version = kSessionVersion;  // the lower version of the two
  std::string secret;                       // kSessionSecretBytes bytes, the same for all ranks of the job
  std::uint32_t generation = 0;             // how many hellos this rank had sent before
  bool operator==(const SessionWelcome&) const = default;
};
struct SessionPutDone {
  std::uint64_t id = 0;
  base::Code code = base::Code::kOk;
  std::string text;  // the error
  bool operator==(const SessionPutDone&) const = default;
};
struct SessionValue {
  std::uint64_t id = 0;
  base::Code code = base::Code::kOk;
  std::string bytes;  // the value, or the error if `code` is not ok
  bool operator==(const SessionValue&) const = default;
};
// Reports to a rank that another rank has ended or left. Each rank gets each end once, even if it connects after that
// end.
struct SessionEnded {
  std::int32_t rank = 0;
  bool failed = false;
  std::string cause;  // text for a message, after the rank's name, such as "was killed by signal 9 (SIGKILL)"
  bool operator==(const SessionEnded&) const = default;
};

// Sent to a rank, from version 2 on. It reports that the launcher has lost or regained contact with another rank's
// host. That other rank may still run.
struct SessionSilence {
  std::int32_t rank = 0;
  bool is_silent = false;
  bool operator==(const SessionSilence&) const = default;
};

using SessionMessage = std::variant<SessionHello, SessionPut, SessionWait, SessionCancel, SessionGoodbye,
                                    SessionWelcome, SessionPutDone, SessionValue, SessionEnded, SessionSilence>;

// The first version with SessionSilence.
inline constexpr std::uint32_t kSessionSilenceVersion = 2;

// INVALID_ARGUMENT, with a message, if the key or value is longer than a frame can carry. Check keys and values with
// these functions before encode_session().
base::Status check_session_key(std::string_view key);
base::Status check_session_value(std::string_view value);

// Returns the whole frame. Texts that are too long are cut; keys and values must not be too long.
std::string encode_session(const SessionMessage& message);

// Splits a stream into messages.
class SessionReader {
 public:
  void append(std::string_view bytes) { bytes_.append(bytes); }
  // nullopt if the next message is not complete. INVALID_ARGUMENT if the bytes are no frame; the stream is unusable
  // then.
  base::Result<std::optional<SessionMessage>> next();
  bool is_empty() const { return at_ == bytes_.size(); }  // true between two messages
  // Returns how many bytes are missing from the next message, or from its header. The count never reaches beyond that
  // message, so that a reader can leave later bytes in the socket.
  std::size_t missing() const;

 private:
  std::string bytes_;
  std::size_t at_ = 0;  // bytes that were consumed
};

}  // namespace muster::rendezvous

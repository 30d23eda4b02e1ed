// The wire format of torch's TCPStore (c10d): op codes of its three generations, the parser of requests, and replies.
// Pure: no I/O, no store.
//
// A request is one byte of op code and its arguments. Integers are in host byte order, which is the same for all peers
// of a job, and little endian in practice. Keys and values are a u64 length and bytes. Peers exchange no version. The
// generations are
//   A  torch <= 2.0   7 is WATCH_KEY, 8 is DELETE_KEY; no further codes
//   B  torch 2.1      7 is DELETE_KEY, 8 APPEND, 9 MULTI_GET, 10 MULTI_SET, 11 CANCEL_WAIT; 0 to 6 as in A
//   C  torch >= 2.2   0 is VALIDATE, the first request of every connection; then the codes of B plus one, then new ones
// Sources: QueryType in torch's TCPStore.cpp (1.13) and TCPStoreBackend.hpp (2.1, 2.2, 2.9), and conversations recorded
// with torch 1.13. The limits are those of torch's libuv server.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::rendezvous {

enum class TorchGeneration : std::uint8_t { kA, kB, kC };

enum class TorchOp : std::uint8_t {  // arguments -> reply
  kValidate,                         // u32 magic -> none
  kSet,                              // key, bytes -> none
  kCompareSet,                       // key, bytes expected, bytes desired -> bytes
  kGet,                              // key -> bytes
  kAdd,                              // key, i64 delta -> i64 sum
  kCheck,                            // u64 n, n keys -> u8 kTorchReady or kTorchNotReady
  kWait,                             // u64 n, n keys -> u8 kTorchStopWaiting, once all exist
  kCountKeys,                        // none -> i64
  kWatchKey,                         // key -> u8 kTorchWatching, and an event at each change
  kDeleteKey,                        // key -> i64 0 or 1
  kAppend,                           // key, bytes -> none
  kMultiGet,                         // u64 n, n keys -> n bytes
  kMultiSet,                         // i64 n, n times key and bytes -> none
  kCancelWait,                       // none -> u8 kTorchWaitCancelled
  kPing,                             // u32 nonce -> u32 nonce
  kQueuePush,                        // key, bytes -> none
  kQueuePop,                         // key -> i64 length before; bytes if that is not 0
  kQueueLength,                      // key -> i64
  kListKeys,                         // none -> i64 n, n keys
  kBarrier,                          // key, i64 world -> u8 kTorchStopWaiting, once `world` clients have arrived
};

inline constexpr std::uint32_t kTorchMagic = 0x3C85F7CE;  // for kValidate
inline constexpr std::uint8_t kTorchReady = 0;
inline constexpr std::uint8_t kTorchNotReady = 1;
inline constexpr std::uint8_t kTorchStopWaiting = 0;
inline constexpr std::uint8_t kTorchWaitCancelled = 1;
// Replies to kWatchKey. An event is one of the first three, then the key, the old and the new value. A missing value is
// empty.
inline constexpr std::uint8_t kTorchKeyUpdated = 0;
inline constexpr std::uint8_t kTorchKeyCreated = 1;
inline constexpr std::uint8_t kTorchKeyDeleted = 2;
inline constexpr std::uint8_t kTorchWatching = 3;

// nullopt if the generation has no such request. Also nullopt for kValidate, which read_torch_greeting() handles.
std::optional<TorchOp> torch_op(TorchGeneration generation, std::uint8_t code);

// The meaning of a connection's first bytes. kOther is generation A or B, or no client of torch's.
enum class TorchGreeting { kNeedsMore, kValidated, kOther };
inline constexpr std::size_t kTorchGreetingBytes = 5;  // for kValidated
TorchGreeting read_torch_greeting(std::string_view first_bytes);

struct TorchRequestLimits {
  std::uint64_t max_key_bytes = 8 << 10;
  std::uint64_t max_value_bytes = 8 << 20;
  std::uint64_t max_keys = 128 << 10;          // limit for one request
  std::uint64_t max_request_bytes = 32 << 20;  // at most 2 GiB
};

// Finds the end of each request in bytes that arrive in pieces. It keeps positions but no bytes. So the caller passes
// the request from its first byte on, each time with more bytes.
//
//   parser.begin(op);
//   MUSTER_ASSIGN_OR_RETURN(const bool is_whole, parser.parse(bytes));
//   if (is_whole) use(parser.text(bytes, 0)), bytes.remove_prefix(parser.size());
class TorchRequestParser {
 public:
  explicit TorchRequestParser(const TorchRequestLimits& limits) : limits_(limits) {}

  // The first byte that parse() gets must be the request's op code.
  void begin(TorchOp op);
  // False if more bytes are needed. INVALID_ARGUMENT if a length exceeds the limits. It is returned as soon as the
  // length has arrived, and the connection is unusable afterwards.
  base::Result<bool> parse(std::string_view bytes);

  // The following functions describe a whole request, in the bytes that parse() got.
  TorchOp op() const { return op_; }
  std::size_t size() const { return position_; }            // includes the op code
  std::size_t text_count() const { return texts_.size(); }  // keys and values, in order
  std::string_view text(std::string_view bytes, std::size_t index) const {
    return bytes.substr(texts_[index].begin, texts_[index].size);
  }
  std::int64_t number() const { return number_; }  // delta, world or nonce

 private:
  enum class Field : std::uint8_t { kEnd, kKey, kValue, kInt64, kUint32, kKeys, kPairs };
  struct Text {
    std::uint32_t begin;
    std::uint32_t size;
  };

  static Field field_of(TorchOp op, std::size_t index);
  Field next_field() const;
  base::Result<bool> read_field(Field field, std::string_view bytes);
  base::Result<bool> read_text(std::uint64_t limit, std::string_view what, std::string_view bytes);
  base::Result<bool> read_count(Field field, std::string_view bytes);
  template <typename T>
  bool read_number(std::string_view bytes);
  base::Status check_size(std::uint64_t more) const;

  TorchRequestLimits limits_;
  TorchOp op_ = TorchOp::kPing;
  std::size_t position_ = 1;    // position of the next field
  std::size_t fields_ = 0;      // number of fields read, without repeated ones
  std::uint64_t repeated_ = 0;  // keys and values still missing from a counted list
  bool is_pairs_ = false;
  std::vector<Text> texts_;
  std::int64_t number_ = 0;
};

template <typename T>
void append_torch_number(T value, std::string* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof value);
}

inline void append_torch_bytes(std::string_view bytes, std::string* out) {
  append_torch_number<std::uint64_t>(bytes.size(), out);
  out->append(bytes);
}

}  // namespace muster::rendezvous

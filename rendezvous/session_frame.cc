// Session messages as bytes: the writer, the parser, and the reader of a stream.
// Read encode_session() first, then Parser and parse(), then SessionReader.
#include "rendezvous/session_frame.h"

#include <algorithm>
#include <utility>

#include "base/little_endian.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kHeader = 4;

enum class Type : std::uint8_t {
  kHello = 1,
  kPut = 2,
  kWait = 3,
  kCancel = 4,
  kGoodbye = 5,
  kWelcome = 16,
  kPutDone = 17,
  kValue = 18,
  kEnded = 19,
  kSilence = 20,
};

class Writer {
 public:
  explicit Writer(Type type) {
    number(std::uint32_t{0});
    number(static_cast<std::uint8_t>(type));
  }
  template <typename T>
  void number(T value) {
    char bytes[sizeof(T)];
    base::put_little_endian(bytes, value);
    frame_.append(bytes, sizeof bytes);
  }
  void text(std::string_view bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    frame_.append(bytes);
  }
  void short_text(std::string_view bytes) { text(bytes.substr(0, kMaxSessionText)); }
  std::string take() {
    MUSTER_CHECK(frame_.size() - kHeader <= kMaxSessionFrame);
    base::put_little_endian(frame_.data(), static_cast<std::uint32_t>(frame_.size() - kHeader));
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

// Reads the fields of one frame. After the first field that does not fit, is_good() is false and further fields are
// empty.
class Parser {
 public:
  explicit Parser(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T number() {
    if (rest_.size() < sizeof(T)) {
      fail();
      return {};
    }
    const T value = base::get_little_endian<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::string text(std::size_t bound) {
    const auto size = number<std::uint32_t>();
    if (size > bound || size > rest_.size()) {
      fail();
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  base::Code code() {
    const auto value = number<std::uint8_t>();
    if (value > static_cast<std::uint8_t>(base::Code::kUnauthenticated)) fail();
    return static_cast<base::Code>(value);
  }
  bool flag() {
    const auto value = number<std::uint8_t>();
    if (value > 1) fail();
    return value == 1;
  }
  void fail() {
    is_good_ = false;
    rest_ = {};
  }
  bool is_at_end() const { return is_good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

struct Encoder {
  std::string operator()(const SessionHello& hello) const {
    Writer to(Type::kHello);
    to.number(hello.version);
    to.number(hello.rank);
    return to.take();
  }
  std::string operator()(const SessionPut& put) const {
    Writer to(Type::kPut);
    to.number(put.id);
    to.text(put.key);
    to.text(put.value);
    return to.take();
  }
  std::string operator()(const SessionWait& wait) const {
    Writer to(Type::kWait);
    to.number(wait.id);
    to.text(wait.key);
    return to.take();
  }
  std::string operator()(const SessionCancel& cancel) const {
    Writer to(Type::kCancel);
    to.number(cancel.id);
    return to.take();
  }
  std::string operator()(const SessionGoodbye&) const { return Writer(Type::kGoodbye).take(); }
  std::string operator()(const SessionWelcome& welcome) const {
    Writer to(Type::kWelcome);
    to.number(welcome.version);
    to.text(welcome.secret);
    to.number(welcome.generation);
    return to.take();
  }
  std::string operator()(const SessionPutDone& done) const {
    Writer to(Type::kPutDone);
    to.number(done.id);
    to.number(static_cast<std::uint8_t>(done.code));
    to.short_text(done.text);
    return to.take();
  }
  std::string operator()(const SessionValue& value) const {
    Writer to(Type::kValue);
    to.number(value.id);
    to.number(static_cast<std::uint8_t>(value.code));
    to.text(value.bytes);
    return to.take();
  }
  std::string operator()(const SessionEnded& ended) const {
    Writer to(Type::kEnded);
    to.number(ended.rank);
    to.number(static_cast<std::uint8_t>(ended.failed ? 1 : 0));
    to.short_text(ended.cause);
    return to.take();
  }
  std::string operator()(const SessionSilence& silence) const {
    Writer to(Type::kSilence);
    to.number(silence.rank);
    to.number(static_cast<std::uint8_t>(silence.is_silent ? 1 : 0));
    return to.take();
  }
};

SessionMessage parse(Parser& from) {
  // The fields are read in the right order, because braced initializers evaluate their arguments in order.
  switch (static_cast<Type>(from.number<std::uint8_t>())) {
    case Type::kHello:
      return SessionHello{from.number<std::uint32_t>(), from.number<std::int32_t>()};
    case Type::kPut:
      return SessionPut{from.number<std::uint64_t>(), from.text(kMaxSessionKey), from.text(kMaxSessionValue)};
    case Type::kWait:
      return SessionWait{from.number<std::uint64_t>(), from.text(kMaxSessionKey)};
    case Type::kCancel:
      return SessionCancel{from.number<std::uint64_t>()};
    case Type::kGoodbye:
      return SessionGoodbye{};
    case Type::kWelcome: {
      SessionWelcome welcome{from.number<std::uint32_t>(), from.text(kSessionSecretBytes),
                             from.number<std::uint32_t>()};
      if (welcome.secret.size() != kSessionSecretBytes) from.fail();
      return welcome;
    }
    case Type::kPutDone:
      return SessionPutDone{from.number<std::uint64_t>(), from.code(), from.text(kMaxSessionText)};
    case Type::kValue:
      return SessionValue{from.number<std::uint64_t>(), from.code(), from.text(kMaxSessionValue)};
    case Type::kEnded:
      return SessionEnded{from.number<std::int32_t>(), from.flag(), from.text(kMaxSessionText)};
    case Type::kSilence:
      return SessionSilence{from.number<std::int32_t>(), from.flag()};
  }
  from.fail();
  return SessionGoodbye{};
}

base::Status check_length(std::string_view what, std::size_t size, std::size_t bound) {
  if (size <= bound) return base::ok_status();
  return base::invalid_argument("a {} of {} bytes; the limit is {}", what, size, bound);
}

}  // namespace

base::Status check_session_key(std::string_view key) {
  return check_length("key", key.size(), kMaxSessionKey);
}

base::Status check_session_value(std::string_view value) {
  return check_length("value", value.size(), kMaxSessionValue);
}

std::string encode_session(const SessionMessage& message) {
  return std::visit(Encoder{}, message);
}

base::Result<std::optional<SessionMessage>> SessionReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.size() < kHeader) return std::optional<SessionMessage>();
  const auto size = base::get_little_endian<std::uint32_t>(rest.data());
  if (size == 0 || size > kMaxSessionFrame) {
    return base::invalid_argument("session protocol: a frame of {} bytes; 1 to {} are possible", size,
                                  kMaxSessionFrame);
  }
  if (rest.size() - kHeader < size) {
    bytes_.erase(0, std::exchange(at_, 0));  // erase all complete messages in one step
    return std::optional<SessionMessage>();
  }
  const std::string_view body = rest.substr(kHeader, size);
  Parser parser(body);
  SessionMessage message = parse(parser);
  if (!parser.is_at_end()) {
    return base::invalid_argument("session protocol: a malformed frame of type {} with {} bytes",
                                  static_cast<unsigned char>(body[0]), size);
  }
  at_ += kHeader + size;
  if (at_ == bytes_.size()) {
    bytes_.clear();
    at_ = 0;
  }
  return std::optional<SessionMessage>(std::move(message));
}

std::size_t SessionReader::missing() const {
  const std::size_t have = bytes_.size() - at_;
  if (have < kHeader) return kHeader - have;
  const std::size_t size =
      std::min<std::size_t>(base::get_little_endian<std::uint32_t>(bytes_.data() + at_), kMaxSessionFrame);
  return have - kHeader < size ? size - (have - kHeader) : 0;
}

}  // namespace muster::rendezvous

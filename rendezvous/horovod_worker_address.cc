// The decoder of a worker's published address: base64, then a small pickle machine, then the shape of its result.
// Read parse_horovod_worker_address() first, then Unpickler::step().
#include "rendezvous/horovod_worker_address.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/base64.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kMaxPickleValues = 8192;

base::Status bad_address(std::string_view what) {
  return base::invalid_argument("worker address: {}", what);
}

struct PickleValue {
  enum class Kind { kMark, kText, kBytes, kNumber, kList, kDict, kPair };
  Kind kind = Kind::kNumber;
  std::string_view text{};           // for kText and kBytes; points into the pickle
  std::int64_t number = 0;           // for kNumber
  std::vector<std::size_t> items{};  // indices of values; for kDict keys and values in turn
};

// Values live in one vector and refer to each other by index, so a list that contains itself does no harm.
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : rest_(bytes) {}

  // Runs to the end. Returns the index of the result.
  base::Result<std::size_t> run() {
    while (!is_done_) MUSTER_RETURN_IF_ERROR(step());
    if (!rest_.empty() || stack_.size() != 1) return bad_address("bytes or values are left over");
    return stack_.back();
  }

  const PickleValue& value(std::size_t index) const { return values_[index]; }

 private:
  using Kind = PickleValue::Kind;

  base::Status step() {
    const auto opcode = take_number(1);
    if (!opcode) return cut();
    switch (static_cast<unsigned char>(*opcode)) {
      case 0x80:  // PROTO
        return skip_protocol();
      case 0x95:  // FRAME
        return take_number(8) ? base::ok_status() : cut();
      case '}':  // EMPTY_DICT
        return push({.kind = Kind::kDict});
      case ']':  // EMPTY_LIST
        return push({.kind = Kind::kList});
      case '(':  // MARK
        return push({.kind = Kind::kMark});
      case 0x94:  // MEMOIZE
        return memoize();
      case 'h':  // BINGET
        return recall(take_number(1));
      case 'j':  // LONG_BINGET
        return recall(take_number(4));
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(Kind::kText);
      case 'C':  // SHORT_BINBYTES
        return push_text(Kind::kBytes);
      case 'K':  // BININT1
        return push_number(take_number(1));
      case 'M':  // BININT2
        return push_number(take_number(2));
      case 'J':  // BININT
        return push_number(take_number(4));
      case 0x86:  // TUPLE2
        return make_pair();
      case 'a':  // APPEND
        return add(Kind::kList, 1);
      case 's':  // SETITEM
        return add(Kind::kDict, 2);
      case 'e':  // APPENDS
        return add_marked(Kind::kList, 1);
      case 'u':  // SETITEMS
        return add_marked(Kind::kDict, 2);
      case '.':  // STOP
        is_done_ = true;
        return base::ok_status();
      default:
        return bad_address("an opcode that no address needs");
    }
  }

  static base::Status cut() { return bad_address("it ends too early"); }

  std::optional<std::uint64_t> take_number(std::size_t bytes) {
    if (rest_.size() < bytes) return std::nullopt;
    std::uint64_t number = 0;
    for (std::size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(bytes);
    return number;
  }

  base::Status skip_protocol() {
    const auto version = take_number(1);
    if (!version) return cut();
    return *version >= 2 && *version <= 5 ? base::ok_status() : bad_address("an unknown version of pickle");
  }

  base::Status push(PickleValue value) {
    if (values_.size() >= kMaxPickleValues) return bad_address("too many values");
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
    return base::ok_status();
  }

  base::Status push_text(Kind kind) {
    const auto size = take_number(1);
    if (!size || rest_.size() < *size) return cut();
    const std::string_view text = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return push({.kind = kind, .text = text});
  }

  base::Status push_number(std::optional<std::uint64_t> number) {
    if (!number) return cut();
    return push({.kind = Kind::kNumber, .number = static_cast<std::int64_t>(*number)});
  }

  base::Status memoize() {
    if (stack_.empty() || memo_.size() >= kMaxPickleValues) return bad_address("nothing to remember");
    memo_.push_back(stack_.back());
    return base::ok_status();
  }

  base::Status recall(std::optional<std::uint64_t> index) {
    if (!index) return cut();
    if (*index >= memo_.size()) return bad_address("an unknown reference");
    if (stack_.size() >= kMaxPickleValues) return bad_address("too many values");
    stack_.push_back(memo_[*index]);
    return base::ok_status();
  }

  base::Status make_pair() {
    if (stack_.size() < 2) return bad_address("too few values for a pair");
    PickleValue pair{.kind = Kind::kPair, .items = {stack_[stack_.size() - 2], stack_.back()}};
    stack_.resize(stack_.size() - 2);
    return push(std::move(pair));
  }

  // Adds the values above `first` to the container below them.
  base::Status add_from(std::size_t first, Kind kind, std::size_t step, std::size_t container_at) {
    PickleValue& container = values_[stack_[container_at]];
    const std::size_t count = stack_.size() - first;
    if (container.kind != kind || count % step != 0) return bad_address("a container of another kind");
    total_items_ += count;
    if (total_items_ > kMaxPickleValues) return bad_address("too many values");
    container.items.insert(container.items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(container_at + 1);
    return base::ok_status();
  }

  base::Status add(Kind kind, std::size_t count) {
    if (stack_.size() < count + 1) return bad_address("too few values for a container");
    return add_from(stack_.size() - count, kind, count, stack_.size() - count - 1);
  }

  base::Status add_marked(Kind kind, std::size_t step) {
    std::size_t mark = stack_.size();
    while (mark > 0 && values_[stack_[mark - 1]].kind != Kind::kMark) --mark;
    if (mark < 2) return bad_address("no mark below the values of a container");
    return add_from(mark, kind, step, mark - 2);
  }

  std::string_view rest_;
  std::vector<PickleValue> values_;
  std::vector<std::size_t> stack_;
  std::vector<std::size_t> memo_;
  std::size_t total_items_ = 0;
  bool is_done_ = false;
};

using PickleKind = PickleValue::Kind;

base::Result<HorovodEndpoint> read_endpoint(const Unpickler& pickle, std::size_t index) {
  const PickleValue& pair = pickle.value(index);
  if (pair.kind != PickleKind::kPair) return bad_address("an endpoint is no pair");
  const PickleValue& address = pickle.value(pair.items[0]);
  const PickleValue& port = pickle.value(pair.items[1]);
  if (address.kind != PickleKind::kText || port.kind != PickleKind::kNumber || port.number < 1 || port.number > 65535) {
    return bad_address("an endpoint is no address and port");
  }
  return HorovodEndpoint{std::string(address.text), static_cast<std::uint16_t>(port.number)};
}

base::Result<HorovodWorkerAddress> read_worker_address(const Unpickler& pickle, std::size_t index) {
  const PickleValue& top = pickle.value(index);
  if (top.kind != PickleKind::kPair) return bad_address("it is no pair");
  const PickleValue& interfaces = pickle.value(top.items[0]);
  const PickleValue& key = pickle.value(top.items[1]);
  if (interfaces.kind != PickleKind::kDict || key.kind != PickleKind::kBytes) {
    return bad_address("it is no dict with a key");
  }
  if (key.text.size() != kHorovodNoticeKeyBytes) return bad_address("its key has another length");
  HorovodWorkerAddress address{.endpoints = {}, .key = std::string(key.text)};
  for (std::size_t i = 0; i + 1 < interfaces.items.size(); i += 2) {
    const PickleValue& list = pickle.value(interfaces.items[i + 1]);
    if (list.kind != PickleKind::kList) return bad_address("an interface has no list");
    for (const std::size_t each : list.items) {
      // A list may occur many times, so the limit counts here, too.
      if (address.endpoints.size() >= kMaxPickleValues) return bad_address("too many endpoints");
      MUSTER_ASSIGN_OR_RETURN(HorovodEndpoint endpoint, read_endpoint(pickle, each));
      address.endpoints.push_back(std::move(endpoint));
    }
  }
  if (address.endpoints.empty()) return bad_address("it has no endpoint");
  return address;
}

}  // namespace

base::Result<HorovodWorkerAddress> parse_horovod_worker_address(std::string_view text) {
  if (text.size() > kMaxWorkerAddressBytes) return bad_address("it is too long");
  const auto bytes = base::decode_base64(text);
  if (!bytes) return bad_address("it is no base64");
  Unpickler pickle(*bytes);
  MUSTER_ASSIGN_OR_RETURN(const std::size_t result, pickle.run());
  return read_worker_address(pickle, result);
}

}  // namespace muster::rendezvous

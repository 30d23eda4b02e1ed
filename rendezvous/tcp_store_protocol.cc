// torch's wire format: tables of op codes, shapes of requests, and their parser.
// Read the tables and field_of() first, then parse(), which calls the functions after it.
#include "rendezvous/tcp_store_protocol.h"

#include <algorithm>
#include <array>

namespace muster::rendezvous {
namespace {

// Each array is indexed by the code that clients of the generation send.
constexpr std::array kCodesOfA = {TorchOp::kSet,       TorchOp::kCompareSet, TorchOp::kGet,
                                  TorchOp::kAdd,       TorchOp::kCheck,      TorchOp::kWait,
                                  TorchOp::kCountKeys, TorchOp::kWatchKey,   TorchOp::kDeleteKey};
constexpr std::array kCodesOfB = {TorchOp::kSet,    TorchOp::kCompareSet, TorchOp::kGet,       TorchOp::kAdd,
                                  TorchOp::kCheck,  TorchOp::kWait,       TorchOp::kCountKeys, TorchOp::kDeleteKey,
                                  TorchOp::kAppend, TorchOp::kMultiGet,   TorchOp::kMultiSet,  TorchOp::kCancelWait};
// torch 2.4 to 2.11 added the codes after kCancelWait one by one; older clients do not send them.
constexpr std::array kCodesOfC = {TorchOp::kValidate,    TorchOp::kSet,      TorchOp::kCompareSet, TorchOp::kGet,
                                  TorchOp::kAdd,         TorchOp::kCheck,    TorchOp::kWait,       TorchOp::kCountKeys,
                                  TorchOp::kDeleteKey,   TorchOp::kAppend,   TorchOp::kMultiGet,   TorchOp::kMultiSet,
                                  TorchOp::kCancelWait,  TorchOp::kPing,     TorchOp::kQueuePush,  TorchOp::kQueuePop,
                                  TorchOp::kQueueLength, TorchOp::kListKeys, TorchOp::kBarrier};

template <std::size_t size>
std::optional<TorchOp> look_up(const std::array<TorchOp, size>& codes, std::uint8_t code) {
  if (code >= size || codes[code] == TorchOp::kValidate) return std::nullopt;
  return codes[code];
}

}  // namespace

std::optional<TorchOp> torch_op(TorchGeneration generation, std::uint8_t code) {
  switch (generation) {
    case TorchGeneration::kA:
      return look_up(kCodesOfA, code);
    case TorchGeneration::kB:
      return look_up(kCodesOfB, code);
    case TorchGeneration::kC:
      return look_up(kCodesOfC, code);
  }
  return std::nullopt;
}

TorchGreeting read_torch_greeting(std::string_view first_bytes) {
  // Only generation C has VALIDATE. A client of generation A or B would begin a SET of a gigabyte-long key with these
  // bytes.
  std::string validate(1, '\0');
  append_torch_number(kTorchMagic, &validate);
  const std::size_t known = std::min(first_bytes.size(), validate.size());
  if (first_bytes.substr(0, known) != validate.substr(0, known)) return TorchGreeting::kOther;
  return known < validate.size() ? TorchGreeting::kNeedsMore : TorchGreeting::kValidated;
}

TorchRequestParser::Field TorchRequestParser::field_of(TorchOp op, std::size_t index) {
  using enum Field;
  using Shape = std::array<Field, 3>;
  static constexpr auto kShapes = [] {
    std::array<Shape, 20> shapes{};  // all kEnd
    const auto shape = [&shapes](TorchOp of) -> Shape& { return shapes[static_cast<std::size_t>(of)]; };
    shape(TorchOp::kValidate) = {kUint32};
    shape(TorchOp::kSet) = {kKey, kValue};
    shape(TorchOp::kCompareSet) = {kKey, kValue, kValue};
    shape(TorchOp::kGet) = {kKey};
    shape(TorchOp::kAdd) = {kKey, kInt64};
    shape(TorchOp::kCheck) = {kKeys};
    shape(TorchOp::kWait) = {kKeys};
    shape(TorchOp::kWatchKey) = {kKey};
    shape(TorchOp::kDeleteKey) = {kKey};
    shape(TorchOp::kAppend) = {kKey, kValue};
    shape(TorchOp::kMultiGet) = {kKeys};
    shape(TorchOp::kMultiSet) = {kPairs};
    shape(TorchOp::kPing) = {kUint32};
    shape(TorchOp::kQueuePush) = {kKey, kValue};
    shape(TorchOp::kQueuePop) = {kKey};
    shape(TorchOp::kQueueLength) = {kKey};
    shape(TorchOp::kBarrier) = {kKey, kInt64};
    return shapes;
  }();
  return index < 3 ? kShapes[static_cast<std::size_t>(op)][index] : kEnd;
}

void TorchRequestParser::begin(TorchOp op) {
  op_ = op;
  position_ = 1;
  fields_ = 0;
  repeated_ = 0;
  constexpr std::size_t kKept = 1024;  // after a request with many keys, more capacity than this is freed
  if (texts_.capacity() > kKept) std::vector<Text>().swap(texts_);
  texts_.clear();
}

TorchRequestParser::Field TorchRequestParser::next_field() const {
  if (repeated_ == 0) return field_of(op_, fields_);
  return is_pairs_ && repeated_ % 2 == 1 ? Field::kValue : Field::kKey;
}

base::Result<bool> TorchRequestParser::parse(std::string_view bytes) {
  for (Field field = next_field(); field != Field::kEnd; field = next_field()) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_read, read_field(field, bytes));
    if (!is_read) return false;
  }
  return true;
}

base::Result<bool> TorchRequestParser::read_field(Field field, std::string_view bytes) {
  switch (field) {
    case Field::kKey:
      return read_text(limits_.max_key_bytes, "key", bytes);
    case Field::kValue:
      return read_text(limits_.max_value_bytes, "value", bytes);
    case Field::kInt64:
      return read_number<std::int64_t>(bytes);
    case Field::kUint32:
      return read_number<std::uint32_t>(bytes);
    case Field::kKeys:
    case Field::kPairs:
      return read_count(field, bytes);
    case Field::kEnd:
      break;
  }
  return true;
}

template <typename T>
bool TorchRequestParser::read_number(std::string_view bytes) {
  T value;
  if (bytes.size() - position_ < sizeof value) return false;
  std::memcpy(&value, bytes.data() + position_, sizeof value);
  number_ = static_cast<std::int64_t>(value);
  position_ += sizeof value;
  ++fields_;
  return true;
}

// Checks that `more` bytes from position_ on stay within the limit of one request.
base::Status TorchRequestParser::check_size(std::uint64_t more) const {
  if (more <= limits_.max_request_bytes && position_ + more <= limits_.max_request_bytes) return base::ok_status();
  return base::invalid_argument("a request is longer than {} bytes", limits_.max_request_bytes);
}

base::Result<bool> TorchRequestParser::read_text(std::uint64_t limit, std::string_view what, std::string_view bytes) {
  std::uint64_t size = 0;
  if (bytes.size() - position_ < sizeof size) return false;
  std::memcpy(&size, bytes.data() + position_, sizeof size);
  if (size > limit) return base::invalid_argument("a {} of {} bytes is longer than {}", what, size, limit);
  MUSTER_RETURN_IF_ERROR(check_size(sizeof size + size));
  if (bytes.size() - position_ - sizeof size < size) return false;
  position_ += sizeof size;
  texts_.push_back({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(size)});
  position_ += size;
  if (repeated_ > 0) {
    --repeated_;
  } else {
    ++fields_;
  }
  return true;
}

base::Result<bool> TorchRequestParser::read_count(Field field, std::string_view bytes) {
  std::uint64_t count = 0;  // signed for kPairs; a negative count then exceeds the limit
  if (bytes.size() - position_ < sizeof count) return false;
  std::memcpy(&count, bytes.data() + position_, sizeof count);
  if (count > limits_.max_keys) {
    return base::invalid_argument("a request with {} keys has more than {}", count, limits_.max_keys);
  }
  position_ += sizeof count;
  ++fields_;
  is_pairs_ = field == Field::kPairs;
  repeated_ = is_pairs_ ? 2 * count : count;
  return true;
}

}  // namespace muster::rendezvous

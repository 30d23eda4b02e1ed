#include "collectives/engine/announcement.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster::collectives::inline engine {
namespace {

constexpr std::uint8_t kOnGpu = 1;
constexpr std::uint8_t kAlone = 2;
constexpr int kFlagsEnd = 4;

template <typename T>
void put(const T& value, std::vector<std::byte>& to) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void put(const std::vector<std::int64_t>& values, std::vector<std::byte>& to) {
  put(static_cast<std::uint32_t>(values.size()), to);
  for (const std::int64_t value : values) put(value, to);
}

// Reads values off the front. After the bytes run out, every value is 0 and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  bool ok() const { return is_ok_; }
  bool is_at_end() const { return left_.empty(); }

  template <typename T>
  T read() {
    T value{};
    if (!has(sizeof value)) return value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return value;
  }
  std::string read_string() {
    const auto size = read<std::uint32_t>();
    if (!has(size)) return "";
    std::string text(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return text;
  }
  std::vector<std::int64_t> read_list() {
    const auto size = read<std::uint32_t>();
    std::vector<std::int64_t> values;
    if (!has(std::size_t{size} * sizeof(std::int64_t))) return values;
    values.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) values.push_back(read<std::int64_t>());
    return values;
  }
  // Reads a value below `end`.
  template <typename Enum>
  Enum read_enum(int end) {
    const auto value = read<std::uint8_t>();
    if (value >= end) is_ok_ = false;
    return static_cast<Enum>(is_ok_ ? value : 0);
  }

 private:
  bool has(std::size_t bytes) {
    if (bytes > left_.size()) is_ok_ = false;
    return is_ok_;
  }
  std::span<const std::byte> left_;
  bool is_ok_ = true;
};

Announcement read_announcement(Reader& reader) {
  Announcement made;
  made.name = reader.read_string();
  Signature& signature = made.signature;
  signature.kind = reader.read_enum<Kind>(kKinds);
  signature.op = reader.read_enum<RedOp>(kRedOps);
  signature.root = reader.read<std::int32_t>();
  signature.before = reader.read<double>();
  signature.after = reader.read<double>();
  signature.splits = reader.read_list();
  const auto flags = reader.read_enum<std::uint8_t>(kFlagsEnd);
  signature.is_on_gpu = (flags & kOnGpu) != 0;
  signature.is_alone = (flags & kAlone) != 0;
  const auto wire = reader.read_enum<std::uint8_t>(kDTypes + 1);
  if (wire != 0) signature.wire = static_cast<DType>(wire - 1);
  const auto tensors = reader.read<std::uint32_t>();
  for (std::uint32_t i = 0; i < tensors && reader.ok(); ++i) {
    TensorSpec tensor;
    tensor.type = reader.read_enum<DType>(kDTypes);
    tensor.shape = reader.read_list();
    signature.tensors.push_back(std::move(tensor));
  }
  return made;
}

}  // namespace

void write(const Announcement& announcement, std::vector<std::byte>& to) {
  const Signature& signature = announcement.signature;
  put(static_cast<std::uint32_t>(announcement.name.size()), to);
  const auto* const name = reinterpret_cast<const std::byte*>(announcement.name.data());
  to.insert(to.end(), name, name + announcement.name.size());
  put(signature.kind, to);
  put(signature.op, to);
  put(signature.root, to);
  put(signature.before, to);
  put(signature.after, to);
  put(signature.splits, to);
  put(static_cast<std::uint8_t>((signature.is_on_gpu ? kOnGpu : 0) | (signature.is_alone ? kAlone : 0)), to);
  put(static_cast<std::uint8_t>(signature.wire ? 1 + static_cast<int>(*signature.wire) : 0), to);
  put(static_cast<std::uint32_t>(signature.tensors.size()), to);
  for (const TensorSpec& tensor : signature.tensors) {
    put(tensor.type, to);
    put(tensor.shape, to);
  }
}

base::Result<std::vector<Announcement>> read_announcements(std::span<const std::byte> bytes, int ranks) {
  std::vector<Announcement> list;
  Reader reader(bytes);
  while (reader.ok() && !reader.is_at_end()) list.push_back(read_announcement(reader));
  if (!reader.ok()) {
    return base::data_loss("a rank announced its tensors in an unknown format: do all ranks use the same libmuster?");
  }
  for (const Announcement& announcement : list) {
    const base::Status sense = check(announcement.signature, ranks);
    if (!sense.ok())
      return base::Status(base::Code::kDataLoss, "a rank announced an invalid tensor: " + sense.message());
  }
  return list;
}

}  // namespace muster::collectives::engine

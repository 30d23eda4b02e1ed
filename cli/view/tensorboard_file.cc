#include "cli/view/tensorboard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/strings.h"
#include "proto/wire/tensorboard.pb.h"

namespace muster::cli::inline view {
namespace {

constexpr const char* kFileVersion = "brain.Event:2";
constexpr const char* kTextPlugin = "text";
constexpr int kStringType = 7;  // DT_STRING of TensorFlow's types.proto

template <typename Integer>
void add_little_endian(Integer value, std::string& to) {
  std::array<char, sizeof value> bytes;
  base::put_little_endian(bytes.data(), value);
  to.append(bytes.data(), bytes.size());
}

// TensorFlow masks checksums because the data may hold checksums, too.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = base::crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

double seconds_of(base::WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

void set_text(const std::string& text, tensorboard::Summary::Value& to) {
  to.mutable_metadata()->mutable_plugin_data()->set_plugin_name(kTextPlugin);
  tensorboard::TensorProto& tensor = *to.mutable_tensor();
  tensor.set_dtype(kStringType);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(text);
}

std::string first_record(base::WallTime time) {
  tensorboard::Event event;
  event.set_wall_time(seconds_of(time));
  event.set_file_version(kFileVersion);
  return tfrecord(event.SerializeAsString());
}

base::Status make_folders(const std::string& option, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return base::errno_error(errno, fmt::format("{}: make directory {}", option, part));
    }
    if (end == std::string::npos) return base::ok_status();
  }
}

// The name may hold no '/'.
std::string name_of_this_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  std::string text(name.data());
  std::ranges::replace(text, '/', '_');
  return text;
}

}  // namespace

std::string tfrecord(std::string_view data) {
  std::string length;
  add_little_endian(std::uint64_t{data.size()}, length);
  std::string record = length;
  add_little_endian(masked_crc(length), record);
  record += data;
  add_little_endian(masked_crc(data), record);
  return record;
}

std::string tensorboard_record(base::WallTime time, std::int64_t step, const std::vector<TensorboardValue>& values) {
  tensorboard::Event event;
  event.set_wall_time(seconds_of(time));
  event.set_step(step);
  for (const TensorboardValue& each : values) {
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(base::valid_utf8(each.tag));
    if (const auto* const text = std::get_if<std::string>(&each.value)) {
      set_text(base::valid_utf8(*text), value);
    } else {
      value.set_simple_value(static_cast<float>(std::get<double>(each.value)));
    }
  }
  return tfrecord(event.SerializeAsString());
}

base::Result<std::unique_ptr<TensorboardFile>> TensorboardFile::create(const std::string& option,
                                                                       const std::string& folder, base::WallTime now) {
  MUSTER_RETURN_IF_ERROR(make_folders(option, folder));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  std::string path =
      fmt::format("{}/events.out.tfevents.{}.{}.{}.muster", folder, seconds, name_of_this_host(), ::getpid());
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("{}: open {}", option, path));
  std::unique_ptr<TensorboardFile> file(new TensorboardFile(option, std::move(path), std::move(fd)));
  MUSTER_RETURN_IF_ERROR(file->append(first_record(now)));
  return file;
}

base::Status TensorboardFile::write(base::WallTime time, std::int64_t step,
                                    const std::vector<TensorboardValue>& values) {
  if (values.empty() || !fd_.valid()) return base::ok_status();
  return append(tensorboard_record(time, step, values));
}

base::Status TensorboardFile::append(const std::string& bytes) {
  const base::Status written = base::write_all_blocking(fd_.get(), bytes.data(), bytes.size());
  if (written.ok()) return written;
  fd_.reset();
  return base::error(written.code(), "{}: {}: {}", option_, path_, written.message());
}

}  // namespace muster::cli::view

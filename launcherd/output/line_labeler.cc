#include "launcherd/output/line_labeler.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace muster::launcherd::inline output {
namespace {

constexpr std::size_t kKeptCapacity = 512 * 1024;

// Formats a local time like time.asctime, as horovodrun prints it.
std::string asctime_text(std::time_t second) {
  std::tm parts{};
  localtime_r(&second, &parts);
  std::array<char, 64> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%a %b %e %H:%M:%S %Y", &parts);
  return {text.data(), size};
}

}  // namespace

char* TextBuffer::room(std::size_t size) {
  if (capacity_ - size_ < size) {
    const std::size_t capacity = std::max(size_ + size, capacity_ + capacity_ / 2);
    std::unique_ptr<char[]> bytes(new char[capacity]);
    if (size_ > 0) std::memcpy(bytes.get(), bytes_.get(), size_);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }
  return bytes_.get() + size_;
}

void TextBuffer::append(std::string_view text) {
  if (text.empty()) return;
  std::memcpy(room(text.size()), text.data(), text.size());
  size_ += text.size();
}

void TextBuffer::clear() {
  size_ = 0;
  if (capacity_ > kKeptCapacity) {
    bytes_.reset();
    capacity_ = 0;
  }
}

std::string LineLabeler::new_label(std::string_view ranks, proto::OutputStream stream, std::time_t second) const {
  return format_.label(ranks, stream == proto::OutputStream::kStdout ? "stdout" : "stderr",
                       has_time_ ? asctime_text(second) : std::string());
}

void LineLabeler::make_label(Source source, base::WallTime now) {
  const std::time_t second = has_time_ ? base::WallTime::clock::to_time_t(now) : 0;
  if (label_source_ == source && label_second_ == second) return;
  label_source_ = source;
  label_second_ = second;
  label_ = new_label(std::to_string(source.rank), source.stream, second);
}

std::size_t LineLabeler::append(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime now,
                                std::size_t enough, TextBuffer* out) {
  if (bytes.empty()) return 0;
  const Source source{rank, stream};
  make_label(source, now);
  const bool is_open_line = open_ && (!is_after_bar_ || (open_ == source && bytes.front() == '\n'));
  const Join join = !is_open_line ? Join::kFresh : open_ == source ? Join::kContinues : Join::kCloses;
  if (out->size() == 0) join_ = join;
  if (join == Join::kCloses) out->append('\n');
  bool needs_label = join != Join::kContinues;
  open_.reset();
  open_label_.clear();

  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const char* at = begin;
  // '\r' is rare, so search for it once per chunk, not once per line.
  const char* bar = static_cast<const char*>(std::memchr(at, '\r', bytes.size()));
  while (at < end && out->size() < enough) {
    if (bar != nullptr && bar < at) {
      bar = static_cast<const char*>(std::memchr(at, '\r', static_cast<std::size_t>(end - at)));
    }
    const char* const scan_end = bar != nullptr ? bar : end;
    const char* line_end = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(scan_end - at)));
    bool is_ended = true;
    bool is_bar = false;
    if (line_end != nullptr) {
      ++line_end;
    } else if (bar != nullptr) {
      line_end = bar + 1;
      is_bar = line_end == end;
      if (line_end < end && *line_end == '\n') ++line_end;
    } else {
      line_end = end;
      is_ended = false;
    }
    const auto size = static_cast<std::size_t>(line_end - at);
    char* to = out->room(label_.size() + size);
    if (needs_label) {
      std::memcpy(to, label_.data(), label_.size());
      to += label_.size();
    }
    std::memcpy(to, at, size);
    out->add(size + (needs_label ? label_.size() : 0));
    needs_label = true;
    at = line_end;
    if (!is_ended || is_bar) {
      open_ = source;
      open_label_ = label_;
      is_after_bar_ = is_bar;
    }
  }
  return static_cast<std::size_t>(at - begin);
}

void LineLabeler::append_lines(std::string_view ranks, proto::OutputStream stream, std::string_view lines,
                               base::WallTime now, TextBuffer* out) {
  const std::string label = new_label(ranks, stream, has_time_ ? base::WallTime::clock::to_time_t(now) : 0);
  const bool closes = open_ && !is_after_bar_;
  if (out->size() == 0) join_ = closes ? Join::kCloses : Join::kFresh;
  if (closes) out->append('\n');
  open_.reset();
  open_label_.clear();
  while (!lines.empty()) {
    const std::size_t size = std::min(lines.find('\n'), lines.size() - 1) + 1;
    out->append(label);
    out->append(lines.substr(0, size));
    lines.remove_prefix(size);
  }
}

void LineLabeler::end(int rank, proto::OutputStream stream, TextBuffer* out) {
  if (open_ != Source{rank, stream}) return;
  if (!is_after_bar_) {
    if (out->size() == 0) join_ = Join::kCloses;
    out->append('\n');
  }
  open_.reset();
  open_label_.clear();
}

}  // namespace muster::launcherd::output

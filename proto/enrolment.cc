#include "proto/enrolment.h"

#include <algorithm>

#include "base/little_endian.h"
#include "base/net.h"
#include "base/strings.h"

namespace muster::proto {
namespace {

constexpr std::string_view kHello = "MUSTER-ENROL 1 ";
constexpr std::string_view kTaken = "taken ";
constexpr std::string_view kRefused = "refused ";

std::string framed(std::string_view text) {
  text = text.substr(0, kMaxEnrolment);
  std::string message(kEnrolmentHeader, '\0');
  base::put_little_endian(message.data(), static_cast<std::uint32_t>(text.size()));
  return message.append(text);
}

bool is_word(std::string_view text, std::string_view extra) {
  return !text.empty() && std::ranges::all_of(text, [extra](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           extra.find(c) != std::string_view::npos;
  });
}

base::Status no_message() {
  return {base::Code::kInvalidArgument, "the received text is not an enrolment message"};
}

}  // namespace

bool is_enrolment_name(std::string_view name) {
  const bool is_name = name.size() <= 253 && is_word(name.substr(0, 1), "_") && is_word(name, "._-");
  return is_name || base::IpAddress::parse(name).ok();
}

std::string encode_hello(const EnrolmentHello& hello) {
  return framed(fmt::format("{}{} {} {}\n{}", kHello, hello.build_id, hello.slots, hello.instance,
                            base::join(hello.names, "\n")));
}

std::string encode_answer(const EnrolmentAnswer& answer) {
  return framed(fmt::format("{}{}", answer.is_taken ? kTaken : kRefused, answer.text));
}

base::Result<std::size_t> enrolment_size(std::string_view header) {
  if (header.size() < kEnrolmentHeader) return no_message();
  const auto size = base::get_little_endian<std::uint32_t>(header.data());
  if (size == 0 || size > kMaxEnrolment) return no_message();
  return static_cast<std::size_t>(size);
}

base::Result<EnrolmentHello> decode_hello(std::string_view text) {
  const auto lines = base::split(text, '\n');
  if (lines.size() < 2 || lines.size() > 1 + kMaxHostNames || !lines.front().starts_with(kHello)) return no_message();
  const auto words = base::split(lines.front().substr(kHello.size()), ' ');
  EnrolmentHello hello{.build_id = std::string(words.front()), .names = {}};
  if (hello.build_id.size() > 64 || !is_word(hello.build_id, "._-") || words.size() != 3) return no_message();
  const auto slots = base::parse_decimal(words[1], kMaxEnrolledSlots);
  if (!slots || fmt::format("{}", *slots) != words[1]) return no_message();
  hello.slots = static_cast<int>(*slots);
  hello.instance = words[2];
  if (hello.instance.size() > 32 || !is_word(hello.instance, "")) return no_message();
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (!is_enrolment_name(lines[i])) return no_message();
    hello.names.emplace_back(lines[i]);
  }
  return hello;
}

base::Result<EnrolmentAnswer> decode_answer(std::string_view text) {
  if (text.starts_with(kTaken)) return EnrolmentAnswer{true, base::printable(text.substr(kTaken.size()))};
  if (text.starts_with(kRefused)) return EnrolmentAnswer{false, base::printable(text.substr(kRefused.size()))};
  return no_message();
}

}  // namespace muster::proto

#include "agent/process/fields.h"

#include <chrono>

#include <gtest/gtest.h>

namespace muster::agent::fields_test {
namespace {

struct Part {
  int number = 0;
  std::string name;
  bool operator==(const Part&) const = default;
};

struct Whole {
  bool is_on = false;
  std::chrono::milliseconds time{};
  std::optional<std::uint64_t> bytes;
  std::vector<int> numbers;
  std::vector<std::string> texts;
  std::vector<Part> parts;
  bool operator==(const Whole&) const = default;
};

struct Nothing {};

template <MessageOf<Part> M>
bool fields(auto& io, M& m) {
  return io(m.number, m.name);
}

template <MessageOf<Whole> M>
bool fields(auto& io, M& m) {
  return io(m.is_on, m.time, m.bytes, m.numbers, m.texts) &&
         io.list(m.parts, 2, [&](auto& each) { return fields(io, each); });
}

bool fields(auto&, const Nothing&) {
  return true;
}

constexpr auto kFieldsOfTest = [](auto& io, auto& message) { return fields(io, message); };

template <typename T>
std::string encoded(const T& message) {
  FieldWriter out;
  EXPECT_TRUE(fields(out, message));
  return out.take();
}

TEST(Fields, ReadsWhatItWrites) {
  const Whole whole{true, std::chrono::milliseconds(70), 7, {1, 2}, {"a", ""}, {{3, "x"}, {4, "y"}}};
  const std::string bytes = encoded(whole);
  FieldReader in(bytes);
  Whole read;
  EXPECT_TRUE(fields(in, read));
  EXPECT_TRUE(in.at_end());
  EXPECT_TRUE(read == whole);
}

TEST(Fields, RefusesBytesThatAreTooShort) {
  const std::string bytes = encoded(Whole{true, {}, 7, {1}, {"a"}, {{3, "x"}}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    FieldReader in(std::string_view(bytes).substr(0, size));
    Whole read;
    EXPECT_FALSE(fields(in, read)) << size;
  }
}

TEST(Fields, KeepsTheLimitsOfListsAndTexts) {
  Whole whole;
  whole.parts.resize(3);
  const std::string many = encoded(whole);
  FieldReader lists(many);
  Whole read;
  EXPECT_FALSE(fields(lists, read)) << "three parts instead of two";

  const std::string long_name = encoded(Part{1, "four"});
  FieldReader enough(long_name, 4);
  FieldReader too_few(long_name, 3);
  Part part;
  EXPECT_TRUE(fields(enough, part));
  EXPECT_FALSE(fields(too_few, part));
}

TEST(Fields, RefusesABoolThatIsNone) {
  bool value = false;
  FieldReader in(std::string_view("\2", 1));
  EXPECT_FALSE(in(value));
}

TEST(Fields, ReadsOneOfSeveralMessages) {
  using Message = std::variant<Nothing, Part>;
  FieldWriter out;
  write_one_of<std::uint8_t>(out, Message(Part{5, "five"}), kFieldsOfTest);
  const std::string bytes = out.take();
  Message message;
  FieldReader in(bytes);
  ASSERT_TRUE(read_one_of<std::uint8_t>(in, message, kFieldsOfTest));
  EXPECT_TRUE(std::get<Part>(message) == (Part{5, "five"}));

  FieldReader unknown(std::string_view("\2", 1));
  EXPECT_FALSE(read_one_of<std::uint8_t>(unknown, message, kFieldsOfTest));
}

}  // namespace
}  // namespace muster::agent::fields_test

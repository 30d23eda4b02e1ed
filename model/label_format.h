// The label before each line of a rank's output on a console. It is "[3]<stdout>:" unless the user asks for another
// label or for none. A plain value; any thread.
//
//   MUSTER_ASSIGN_OR_RETURN(LabelFormat format, LabelFormat::parse("{rank}: "));
//   format.label(3, "stdout", "");  // "3: "
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

class LabelFormat {
 public:
  LabelFormat();  // "[{rank}]<{stream}>:", as in horovodrun

  // Replaces {rank}, {stream} (stdout or stderr) and {time}; "{{" and "}}" stand for braces. Empty means no label.
  // INVALID_ARGUMENT for another word in braces, a brace without its partner, or a line break.
  static base::Result<LabelFormat> parse(std::string_view text);

  // Puts {time} first, unless the label contains it.
  void add_time();
  bool has_time() const;

  // `rank` is a number, or a list such as "0-3,7" for a line of several ranks.
  std::string label(std::string_view rank, std::string_view stream, std::string_view time) const;
  std::string label(int rank, std::string_view stream, std::string_view time) const {
    return label(std::to_string(rank), stream, time);
  }
  // Returns whether labels name the rank.
  bool has_rank() const;

  bool operator==(const LabelFormat&) const = default;

 private:
  enum class Field { kText, kRank, kStream, kTime };
  struct Part {
    Field field = Field::kText;
    std::string text{};  // for kText
    bool operator==(const Part&) const = default;
  };
  explicit LabelFormat(std::vector<Part> parts) : parts_(std::move(parts)) {}

  std::vector<Part> parts_;
};

}  // namespace muster::model

// Templates and values for the tests of job_templates.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "job_templates/load.h"
#include "job_templates/parameters.h"
#include "job_templates/script.h"

namespace muster::job_templates {

using Given = std::vector<std::pair<std::string, std::string>>;

inline Template built_in(const std::string& name) {
  auto loaded = load_template(name, {});
  EXPECT_TRUE(loaded.ok()) << name << ": " << loaded.status();
  return loaded.ok() ? *std::move(loaded) : Template{};
}

inline Template parsed(const std::string& content) {
  auto loaded = parse_template(content, "t.yaml", {});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : Template{};
}

inline std::string mistake(const std::string& content) {
  const auto loaded = parse_template(content, "t.yaml", {});
  EXPECT_FALSE(loaded.ok()) << content;
  return loaded.status().message();
}

// Borrows from `job_template`.
inline Values with(const Template& job_template, const Given& given) {
  Values values(job_template);
  for (const auto& [name, value] : given) {
    const base::Status set = values.set(name, value, "--" + name);
    EXPECT_TRUE(set.ok()) << set;
  }
  return values;
}

// What a site's users would type in any case.
inline Given needed(const std::string& name) {
  Given given;
  for (const Parameter& parameter : built_in(name).parameters) {
    if (parameter.is_required && !parameter.standard) given.emplace_back(parameter.name, "physics");
  }
  return given;
}

inline std::string script_of(const Template& job_template, const Given& given,
                             std::vector<std::string> command = {"python3", "train.py", "--epochs", "3"}) {
  const Values values = with(job_template, given);
  ScriptRequest wish;
  wish.hvdrun = "/opt/muster/bin/hvdrun";
  wish.command = std::move(command);
  const auto script = render_script(values, wish);
  EXPECT_TRUE(script.ok()) << script.status();
  return script.ok() ? *script : "";
}

}  // namespace muster::job_templates

// The fields of results that travel from workers and stand in reports.
#pragma once

#include "bench/base/json_fields.hpp"
#include "bench/model/backend.hpp"

namespace p5 {

void fields(auto& visit, Is<WrongElement> auto& first) {
  visit.must("rank", first.rank);
  visit.must("offset", first.offset);
  visit.must("wanted", first.wanted);
  visit.must("got", first.got);
  visit.must("guard", first.guard);
}

void fields(auto& visit, Is<LastWords> auto& words) {
  visit.must("log", words.log);
  visit.must("library_status", words.library_status);
}

void fields(auto& visit, Is<Verification> auto& verification) {
  visit.must("wrong_elements", verification.wrong_elements);
  visit.must("first", verification.first);
  visit.must("wrong_ranks", verification.wrong_ranks);
}

void fields(auto& visit, Is<Selection> auto& selection) {
  visit.must("algorithm", selection.algorithm);
  visit.must("protocol", selection.protocol);
  visit.must("channels", selection.channels);
  visit.must("source", selection.source);
}

void fields(auto& visit, Is<Offer> auto& offer) {
  visit.must("setting", offer.setting);
  visit.must("microseconds", json_fields::any(offer.microseconds));
  visit.must("chosen", offer.chosen);
}

}  // namespace p5

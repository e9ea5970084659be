-- Lua has no JSON in its library; this is a small one in Lua itself, written with string.find and table.concat.
local null = {}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local UNESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", n = "\n", r = "\r", t = "\t", b = "\b", f = "\f" }

local function escape(c) return ESCAPES[c] or string.format("\\u%04x", string.byte(c)) end

local function encode(value, out)
  local kind = type(value)
  if kind == "string" then
    out[#out + 1] = '"' .. string.gsub(value, '[%c"\\]', escape) .. '"'
  elseif value == null then
    out[#out + 1] = "null"
  elseif kind == "table" then
    if value[1] ~= nil then
      out[#out + 1] = "["
      for i, item in ipairs(value) do
        if i > 1 then out[#out + 1] = "," end
        encode(item, out)
      end
      out[#out + 1] = "]"
    else
      out[#out + 1] = "{"
      local first = true
      for k, item in pairs(value) do
        if not first then out[#out + 1] = "," end
        first = false
        encode(k, out)
        out[#out + 1] = ":"
        encode(item, out)
      end
      out[#out + 1] = "}"
    end
  else
    out[#out + 1] = tostring(value)
  end
end

local decode

local function skip(text, at) return string.find(text, "[^ \t\r\n]", at) end

local function decode_string(text, at)
  local from = at + 1
  local stop = string.find(text, '["\\]', from)
  if string.byte(text, stop) == 34 then return string.sub(text, from, stop - 1), stop + 1 end
  local parts = {}
  while true do
    parts[#parts + 1] = string.sub(text, from, stop - 1)
    if string.byte(text, stop) == 34 then return table.concat(parts), stop + 1 end
    local c = string.sub(text, stop + 1, stop + 1)
    if c == "u" then
      parts[#parts + 1] = utf8.char(tonumber(string.sub(text, stop + 2, stop + 5), 16))
      from = stop + 6
    else
      parts[#parts + 1] = UNESCAPES[c]
      from = stop + 2
    end
    stop = string.find(text, '["\\]', from)
  end
end

function decode(text, at)
  at = skip(text, at)
  local c = string.byte(text, at)
  if c == 34 then return decode_string(text, at) end
  if c == 123 then
    local out, key = {}, nil
    at = skip(text, at + 1)
    if string.byte(text, at) == 125 then return out, at + 1 end
    while true do
      key, at = decode_string(text, at)
      at = skip(text, at) + 1
      out[key], at = decode(text, at)
      at = skip(text, at)
      if string.byte(text, at) == 125 then return out, at + 1 end
      at = skip(text, at + 1)
    end
  end
  if c == 91 then
    local out, n = {}, 0
    at = skip(text, at + 1)
    if string.byte(text, at) == 93 then return out, at + 1 end
    while true do
      n = n + 1
      out[n], at = decode(text, at)
      at = skip(text, at)
      if string.byte(text, at) == 93 then return out, at + 1 end
      at = at + 1
    end
  end
  if c == 116 then return true, at + 4 end
  if c == 102 then return false, at + 5 end
  if c == 110 then return null, at + 4 end
  local _, stop = string.find(text, "^[-+.%deE]+", at)
  return tonumber(string.sub(text, at, stop)), stop + 1
end

local function document(seed)
  local records = {}
  for i = 1, 20 do
    records[#records + 1] = {
      id = seed * 20 + i,
      name = 'record "' .. i .. '"\tof ' .. seed,
      ratio = 0.5,
      tags = { "alpha", "beta", "gamma" },
      done = i % 2 == 0,
      note = null,
    }
  end
  return { seed = seed, records = records }
end

local function run(n)
  local check = 0
  for i = 1, n do
    local out = {}
    encode(document(i), out)
    local back = decode(table.concat(out), 1)
    for _, r in ipairs(back.records) do
      check = check + r.id + #r.name + #r.tags
    end
  end
  return check
end

print(run(tonumber(arg[1])))

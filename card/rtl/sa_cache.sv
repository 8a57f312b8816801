// The SAs of one pipeline: 256 entries of 14 words (the body of SA_INSTALL as it came), in block
// RAM. A load reads an entry into registers, a word a clock, unless it stands there already:
// packets of one SA in a row pay for it once.
module sa_cache (
    input  logic        clk,
    input  logic        rst,
    input  logic        wr_valid, // words 0 to 13 of an entry; the last makes it valid
    input  logic [7:0]  wr_index,
    input  logic [3:0]  wr_word,
    input  logic [63:0] wr_data,
    input  logic        wipe,     // zeros into wr_word of wr_index, which is invalid from then on
    input  logic        load,     // pulse; `done` follows
    input  logic [7:0]  load_index, // until `done`
    output logic        done,     // pulse
    output logic        found,    // with done
    output logic        changed,  // with done: other keys than at the last load that was found
    output logic [31:0] spi,
    output logic [31:0] salt,
    output logic [7:0]  alg,
    output logic [7:0]  key_bytes,
    output logic [7:0]  icv_bytes,
    output logic [7:0]  flags,
    output logic [255:0] key,
    output logic [511:0] auth_key
);
  localparam logic [3:0] LAST = 4'd13;
  (* no_rw_check *) logic [63:0] mem[0:4095]; // not written while an entry is read
  logic [255:0] valid;
  logic [63:0]  q;
  logic [11:0]  rd_addr;
  logic [895:0] entry; // word 0 lowest, once all have been shifted in
  logic         here;  // `entry` holds here_index
  logic [7:0]   here_index;
  logic         reading;
  logic [3:0]   word;
  logic         asked, valid_asked; // a clock after `load`: one entry of 256 is a long way

  assign {spi, salt} = {entry[31:0], entry[63:32]};
  assign {flags, icv_bytes, key_bytes, alg} = entry[95:64];
  assign key = entry[383:128];
  assign auth_key = entry[895:384];
  assign rd_addr = {here_index, word};

  always_ff @(posedge clk) begin
    if (wr_valid || wipe) mem[{wr_index, wr_word}] <= wipe ? '0 : wr_data;
    q <= mem[rd_addr];
    valid_asked <= valid[load_index];
  end

  always_ff @(posedge clk) begin
    done <= 1'b0;
    asked <= load && !rst;
    if (rst) begin
      valid <= '0;
      here <= 1'b0;
      reading <= 1'b0;
      word <= '0;
    end else begin
      if (asked) begin
        found <= valid_asked;
        changed <= 1'b0;
        if (valid_asked && !(here && here_index == load_index)) begin
          here <= 1'b0;
          here_index <= load_index;
          reading <= 1'b1;
          word <= '0;
        end else done <= 1'b1;
      end
      if (reading) begin
        word <= word + 1'b1;
        if (word != 0) entry <= {q, entry[895:64]};
        if (word == LAST + 4'd1) begin
          reading <= 1'b0;
          here <= 1'b1;
          changed <= 1'b1;
          done <= 1'b1;
        end
      end
      if ((wipe || wr_valid) && here_index == wr_index) begin
        here <= 1'b0;
        if (wipe) entry <= '0;
      end
      if (wipe) valid[wr_index] <= 1'b0;
      else if (wr_valid && wr_word == LAST) valid[wr_index] <= 1'b1;
    end
  end
endmodule
